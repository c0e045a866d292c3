"""Verdicts on requirements as a table, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from record.findings import joined
from record.values import rounded
from results.files.quantities import quantities
from results.find.records import Skipped
from results.show.tables.cells import Table, rendered
from results.show.words import met_words
from results.verdicts.accept import Verdict
from results.verdicts.measures import Answer
from results.verdicts.outcome import Outcome
from results.verdicts.tender.decision import Decision

MARKS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.UNDECIDED: "?"}
OF_PLEDGE = {Outcome.PASSED: "kept", Outcome.FAILED: "not kept"}


def verdict_table(verdicts: Sequence[Verdict], name: str = "requirement") -> Table:
    """Return a row for each requirement, pledged figure or score, without empty columns.

    The mark of an outcome does not depend on colours.
    """
    columns = quantities("system", name, "outcome", "found", "95 % interval", "at", "why", "doubts")
    rows = [
        [
            *(one.system, str(one.item), f"{MARKS[one.outcome]} {_outcome(one, name)}", _found(one.answer)),
            *(one.answer.interval, one.answer.at, one.reason, joined(one.answer.doubts)),
        ]
        for one in verdicts
    ]
    return Table(columns, rows).filled()


def decision_text(decision: Decision) -> str:
    """Return the tables of requirements and pledge, the points of the score, and the runs that do not count."""
    lines = []
    if judged := [*decision.judged, *decision.scores]:
        lines = [rendered(verdict_table(judged), "text", str.ljust)]
        systems = dict.fromkeys(verdict.system for verdict in judged)
        counts = [(system, met_words(decision.of_system(system))) for system in systems]
        lines += [f"{system} {words}" for system, words in counts if words]
    if decision.pledge:
        lines += [""] if lines else []
        lines.append(f"pledge of {decision.pledge.title}, {decision.pledge.signature}:")
        lines.append(rendered(verdict_table(decision.pledged, "pledge"), "text", str.ljust))
    return "\n".join([*lines, *decision.without_figure, *decision.left_out.values()])


def _outcome(one: Verdict, name: str) -> str:
    return OF_PLEDGE.get(one.outcome, one.outcome.value) if name == "pledge" else one.outcome.value


def _found(answer: Answer) -> str:
    """Return the number with its unit, or the grade; of a score with its points."""
    value, half = answer.value, answer.interval.half if answer.interval else None
    text = rounded(value, half) if isinstance(value, float) else "" if value is None else str(value)
    points = "" if answer.award is None else f"= {rounded(answer.award)} points"
    return " ".join(filter(None, [text, answer.unit, points])) if text else ""


def verdicts_json(decision: Decision, code: int, skipped: Sequence[Skipped] = ()) -> str:
    """Return the verdicts as JSON: numbers with all digits, null if there is none."""
    data: dict[str, Any] = {
        "exit_code": code,
        "requirements": [_as_data(one) for one in decision.judged],
        "missing": [{"systems": one.systems, "reason": str(one)} for one in skipped if one.systems is not None],
        "scores": [_as_data(one) | {"points": one.answer.award} for one in decision.scores],
        "without_figure": decision.without_figure,
        "left_out": list(decision.left_out.values()),
    }
    if decision.pledge:
        about = {name: getattr(decision.pledge, name) for name in ("vendor", "date", "system", "devices", "signature")}
        data["pledge"] = {**about, "items": [_as_data(one, "pledge") for one in decision.pledged]}
    return json.dumps(data, indent=1)


def _as_data(one: Verdict, name: str = "requirement") -> dict[str, Any]:
    item, interval = one.item, one.answer.interval
    return {
        "system": one.system,
        "requirement": str(item),
        "workload": item.of,
        "what": item.what,
        "at_least": item.at_least,
        "at_most": item.at_most,
        "outcome": _outcome(one, name),
        "value": one.answer.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval and math.isfinite(interval.high) else None,
        "unit": one.answer.unit,
        "at": one.answer.at,
        "reason": one.reason,
        "doubts": list(map(str, one.answer.doubts)),
    }
