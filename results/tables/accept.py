"""Verdicts on requirements, and scores, as tables and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from results.points.estimate import Interval
from results.values import rounded
from results.verdicts.accept import Outcome, Verdict
from results.verdicts.score import Ranked

HEADER = ["system", "requirement", "outcome", "found", "95 % interval", "at", "why"]
MARKS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.OPEN: "?"}


def verdict_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """The header and a row for each requirement and system."""
    return [HEADER, *map(_row, verdicts)]


def _row(one: Verdict) -> list[str]:
    found = [outcome_text(one.outcome), found_text(one), interval_text(one.interval)]
    return [one.system, str(one.item), *found, one.answer.at, one.reason]


def outcome_text(outcome: Outcome) -> str:
    """With a mark, as colours are not for all."""
    return f"{MARKS[outcome]} {outcome.value}"


def found_text(verdict: Verdict) -> str:
    """The number with its unit, empty without one."""
    value = verdict.answer.value
    if value is None:
        return ""
    interval = verdict.interval
    half = (interval.high - interval.low) / 2 if interval else None
    text = rounded(value, half) if isinstance(value, float) else str(value)
    return f"{text} {verdict.answer.unit}".rstrip()


def interval_text(interval: Interval | None) -> str:
    """Both of its ends, with the digits that its width supports."""
    if interval is None:
        return ""
    half = (interval.high - interval.low) / 2
    return " to ".join(rounded(end, half) for end in interval)


def counts_text(verdicts: Sequence[Verdict]) -> str:
    """How many of each outcome, for each system, in words."""
    lines = []
    for system in dict.fromkeys(one.system for one in verdicts):
        mine = [one.outcome for one in verdicts if one.system == system]
        counts = ", ".join(f"{mine.count(outcome)} {outcome.value}" for outcome in Outcome if outcome in mine)
        lines.append(f"{system}: {counts}")
    return "\n".join(lines)


def verdicts_json(verdicts: Sequence[Verdict], code: int) -> str:
    """For programs: every number as it is, null where there is none."""
    return json.dumps({"exit_code": code, "requirements": [_as_data(one) for one in verdicts]}, indent=1)


def _as_data(one: Verdict) -> dict[str, Any]:
    item, interval = one.item, one.interval
    return {
        "system": one.system,
        "requirement": str(item),
        "workload": item.of,
        "what": item.what,
        "at_least": item.at_least,
        "at_most": item.at_most,
        "outcome": one.outcome.value,
        "value": one.answer.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "unit": one.answer.unit,
        "at": one.answer.at,
        "reason": one.reason,
    }


def score_rows(ranked: Ranked) -> list[list[str]]:
    """The header and a row for each system, the best first."""
    names = list(next((one.speeds for one in ranked.scores if one.speeds), {}))
    header = ["system", "score", "95 % interval", "devices", *names, "remark"]
    rows = []
    for one in ranked.scores:
        speeds = [one.speeds.get(name) for name in names]
        remarks = [f"{name}: {speed.words}" for name, speed in zip(names, speeds, strict=True) if speed and speed.words]
        half = (one.interval.high - one.interval.low) / 2 if one.interval else None
        rows.append(
            [
                one.system,
                rounded(one.value, half),
                interval_text(one.interval),
                "" if one.devices is None else str(one.devices),
                *(rounded(speed.estimate.value) if speed and speed.estimate else "" for speed in speeds),
                one.why_not or "; ".join(remarks),
            ]
        )
    used = [index for index in range(len(header)) if index < 2 or any(row[index] for row in rows)]
    return [[row[index] for index in used] for row in [header, *rows]]
