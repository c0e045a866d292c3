"""Requirements against results: each is passed, failed, or cannot be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from results.points.estimate import Interval
from results.points.repeats import PointResults
from results.records import RecordError
from results.values import rounded
from results.verdicts.measures import Answer, answer, check_alike, points_of
from results.verdicts.outcome import Outcome
from results.verdicts.requirements import Item, Requirements


class Verdict(NamedTuple):
    """One requirement on one system."""

    item: Item
    system: str
    outcome: Outcome
    answer: Answer
    reason: str

    @property
    def interval(self) -> Interval | None:
        """Of the number, None where there is none."""
        return self.answer.estimate.interval if self.answer.estimate else None


def accept(results: Sequence[PointResults], requirements: Requirements) -> list[Verdict]:
    """Every requirement on every system of the results; raises RecordError where there is none to judge by."""
    if not requirements.must:
        raise RecordError("the requirements name nothing that must be reached: write a list 'must'")
    check_alike(results, requirements.workloads)
    systems = dict.fromkeys(one.system for one in results)
    return [
        _judge(item, system, answer(points_of(results, system, requirements.workloads[item.of]), item))
        for system in systems
        for item in requirements.must
    ]


def _judge(item: Item, system: str, found: Answer) -> Verdict:
    if found.why_not:
        return Verdict(item, system, Outcome.FAILED if found.is_failure else Outcome.OPEN, found, found.why_not)
    if found.estimate is None:
        kept = _keeps(item, found.exact)
        return Verdict(item, system, Outcome.PASSED if kept else Outcome.FAILED, found, "")
    interval = found.estimate.interval
    if interval is None:
        return Verdict(item, system, Outcome.OPEN, found, "one run tells of no spread")
    ends = [_keeps(item, end) for end in interval]
    if all(ends):
        return Verdict(item, system, Outcome.PASSED, found, "")
    if not any(ends):
        return Verdict(item, system, Outcome.FAILED, found, "")
    low, high = (rounded(end) for end in interval)
    return Verdict(item, system, Outcome.OPEN, found, f"the limit is within the interval, {low} to {high}")


def _keeps(item: Item, value: float | str | None) -> bool:
    if value is None:
        return False
    if item.at_least is not None:
        return value >= item.at_least  # type: ignore[operator]  # both are numbers, or grades, which sort by their names
    return value <= item.at_most  # type: ignore[operator]
