"""Verdicts on devices and nodes as a table, as sentences, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from results.record.records import Skipped
from results.record.stated import peaks
from results.record.values import rounded
from results.show.tables.accept import MARKS
from results.show.tables.table import without_empty_columns
from results.verdicts.nodes import MATMUL, Kind, Subject, Verdict
from results.verdicts.outcome import Outcome

WORDS = {Outcome.PASSED: "ok", Outcome.FAILED: "slow", Outcome.UNDECIDED: "undecided", None: "not compared"}
WORST = (Outcome.FAILED, Outcome.UNDECIDED, Outcome.PASSED, None)


def node_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return the header and a row for each device, node and all nodes, with a mark at each figure that is not ok."""
    kinds = list(dict.fromkeys(one.kind[1:] for one in verdicts))
    cells = {(one.subject, one.kind[1:]): _cell(one) for one in verdicts}
    rows = [["system", "node", "device", *map(_title, kinds), "verdict"]]
    for subject in dict.fromkeys(one.subject for one in verdicts):
        worst = min((one.outcome for one in verdicts if one.subject == subject), key=WORST.index)
        mark = f"{MARKS[worst]} " if worst else ""
        rows.append([*subject, *(cells.get((subject, kind), "") for kind in kinds), mark + WORDS[worst]])
    return without_empty_columns(rows)


def _title(kind: tuple[str, str, int, int | None]) -> str:
    name, unit, ranks, size = kind
    devices = f" of {ranks}" if size and not name.startswith("send") else ""
    return f"{name.removeprefix(MATMUL).replace('_', ' ')}{devices} [{unit}]"


def _cell(one: Verdict) -> str:
    mark = f"{MARKS[one.outcome]} " if one.outcome in (Outcome.FAILED, Outcome.UNDECIDED) else ""
    return mark + rounded(one.value, one.interval.half if one.interval else None)


def node_sentences(verdicts: Sequence[Verdict], unlike: Mapping[Subject, Sequence[str]]) -> list[str]:
    """Return a sentence on each figure that is slow or undecided, with what differs on its device."""
    found = []
    for one in verdicts:
        if one.outcome in (Outcome.FAILED, Outcome.UNDECIDED):
            name = one.kind.name.replace("_", " ")
            value = rounded(one.value, one.interval.half if one.interval else None)
            share = f"{value} {one.kind.unit} is {one.percent:.1f} % of {one.against}" if one.percent else ""
            words = [f"{one.subject}: {WORDS[one.outcome]}: {name} {share}".rstrip(), one.reason]
            words += [f"what differs: {', '.join(facts)}"] if (facts := unlike.get(one.subject)) else []
            found.append("; ".join(filter(None, words)))
    alone = sorted({_title(one.kind[1:]) for one in verdicts if one.outcome is None})
    if alone:
        found.append(f"not compared, as there is one of each: {', '.join(alone)}: give --baseline FILE")
    return found


def peak_sentences(medians: Mapping[Kind, float]) -> list[str]:
    """Return the median of each precision in percent of the device's peak, as far as the table of systems has it."""
    found = []
    for kind, value in medians.items():
        peak = peaks().get((kind.system, kind.name.removeprefix(MATMUL))) if kind.name.startswith(MATMUL) else None
        if peak:
            of_peak = f"{100 * value / peak:.1f} % of the peak of {peak:g}"
            found.append(f"{kind.system}, {kind.name.removeprefix(MATMUL)}: {rounded(value)} TFLOP/s, {of_peak}")
    return found


def nodes_json(
    verdicts: Sequence[Verdict],
    unlike: Mapping[Subject, Sequence[str]],
    threshold_percent: float,
    code: int,
    failed: Sequence[str],
    skipped: Sequence[Skipped],
) -> str:
    """Return the verdicts as JSON: numbers with all digits, null if there is none."""
    data = {
        "exit_code": code,
        "threshold_percent": threshold_percent,
        "figures": [_as_data(one) for one in verdicts],
        "differences": [{**subject._asdict(), "differs": facts} for subject, facts in unlike.items() if facts],
        "failed": list(failed),
        "missing": [{"systems": one.systems, "reason": one} for one in skipped if one.systems is not None],
    }
    return json.dumps(data, indent=1)


def _as_data(one: Verdict) -> dict[str, Any]:
    interval = {"low": one.interval.low, "high": one.interval.high} if one.interval else {"low": None, "high": None}
    verdict = {"outcome": WORDS[one.outcome], "percent": one.percent, "reference": one.reference}
    return {
        **one.subject._asdict(),
        **one.kind._asdict(),
        "value": one.value,
        **interval,
        **verdict,
        "against": one.against,
        "reason": one.reason,
    }
