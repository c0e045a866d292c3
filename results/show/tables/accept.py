"""Verdicts on requirements as a table, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from record.findings import joined
from record.values import grouped, rounded
from results.files.quantities import quantities
from results.find.records import Skipped
from results.show.tables.cells import Table, rendered
from results.show.words import met_words
from results.verdicts.accept import Verdict
from results.verdicts.outcome import Outcome
from results.verdicts.tender.award import Tender

MARKS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.UNDECIDED: "?"}


def verdict_table(verdicts: Sequence[Verdict], name: str = "requirement") -> Table:
    """Return a row for each requirement or pledge, without empty columns."""
    columns = quantities("system", name, "outcome", "found", "95 % interval", "at", "why", "doubts")
    rows = [
        [
            *(one.system, str(one.item), outcome_text(one), found(one), one.interval, one.answer.at, one.reason),
            joined(one.answer.doubts),
        ]
        for one in verdicts
    ]
    return Table(columns, rows).filled()


def outcome_text(verdict: Verdict) -> str:
    """Return the outcome with a mark, which does not depend on colours."""
    return f"{MARKS[verdict.outcome]} {verdict.words}"


class Matrix(NamedTuple):
    """Requirements by systems."""

    systems: list[str]
    items: list[tuple[str, list[tuple[Verdict, str]]]]  # with the number found, and the reason


def matrix(verdicts: Sequence[Verdict]) -> Matrix:
    """Return for each requirement its cells in the order of the systems."""
    systems = list(dict.fromkeys(verdict.system for verdict in verdicts))
    words = ("; ".join(filter(None, [found(verdict), verdict.reason])) for verdict in verdicts)
    cells = {
        (str(verdict.item), verdict.system): (verdict, text) for verdict, text in zip(verdicts, words, strict=True)
    }
    items = dict.fromkeys(item for item, _ in cells)
    return Matrix(systems, [(item, [cells[item, system] for system in systems]) for item in items])


def tender_text(tender: Tender) -> str:
    """Return the tables of requirements and pledge, the points of the score, and the runs that do not count."""
    judged = tender.judged
    counts = [f"{system} {met_words(verdicts)}" for system, verdicts in grouped(judged, lambda one: one.system).items()]
    lines = [rendered(verdict_table(judged), "text", str.ljust), *counts] if judged else []
    if tender.pledge:
        title = f"pledge of {tender.pledge.title}, {tender.pledge.signature}:"
        lines += [*([""] if lines else []), title, rendered(verdict_table(tender.pledged, "pledge"), "text", str.ljust)]
    return "\n".join([*lines, *map(str, tender.awards), *tender.without_figure, *tender.left_out.values()])


def found(verdict: Verdict) -> str:
    """Return the number with its unit, or the grade."""
    value, half = verdict.answer.value, verdict.interval.half if verdict.interval else None
    text = rounded(value, half) if isinstance(value, float) else "" if value is None else str(value)
    return " ".join(filter(None, [text, verdict.answer.unit])) if text else ""


def verdicts_json(tender: Tender, code: int, skipped: Sequence[Skipped] = ()) -> str:
    """Return the verdicts as JSON: numbers with all digits, null if there is none."""
    data: dict[str, Any] = {
        "exit_code": code,
        "requirements": [_as_data(one) for one in tender.judged],
        "missing": [{"systems": one.systems, "reason": str(one)} for one in skipped if one.systems is not None],
        "scores": [one.as_data() for one in tender.awards],
        "without_figure": tender.without_figure,
        "left_out": list(tender.left_out.values()),
    }
    if tender.pledge:
        about = {name: getattr(tender.pledge, name) for name in ("vendor", "date", "system", "devices", "signature")}
        data["pledge"] = {**about, "items": [_as_data(one) for one in tender.pledged]}
    return json.dumps(data, indent=1)


def _as_data(one: Verdict) -> dict[str, Any]:
    item, interval = one.item, one.interval
    return {
        "system": one.system,
        "requirement": str(item),
        "workload": item.of,
        "what": item.what,
        "at_least": item.at_least,
        "at_most": item.at_most,
        "outcome": one.words,
        "value": one.answer.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval and math.isfinite(interval.high) else None,
        "unit": one.answer.unit,
        "at": one.answer.at,
        "reason": one.reason,
        "doubts": list(map(str, one.answer.doubts)),
    }
