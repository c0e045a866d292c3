"""Requirements against results: each is passed, failed, or cannot be told."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from results.points.estimate import Interval
from results.points.repeats import PointResults
from results.record.records import RecordError, Skipped
from results.record.values import count, rounded
from results.verdicts.measures import Answer, answer, check_alike, points_of
from results.verdicts.outcome import Outcome, judge
from results.verdicts.requirements import Item, Requirements

USUAL_PRECISIONS = ("", "fp32", "tf32", "bf16", "fp16")


class Verdict(NamedTuple):
    """One requirement on one system."""

    item: Item
    system: str
    outcome: Outcome
    answer: Answer
    reason: str

    @property
    def interval(self) -> Interval | None:
        """Interval of the number, None where there is none."""
        return self.answer.interval


def accept(
    results: Sequence[PointResults], requirements: Requirements, skipped: Sequence[Skipped] = ()
) -> list[Verdict]:
    """Judge every requirement on every system of the results, and of the files that were skipped.

    Nothing of a system passes if a file was skipped that may be a run of it. Raises RecordError without a requirement.
    """
    if not requirements.must:
        raise RecordError("the requirements name nothing that must be reached: write a list 'must'")
    check_alike(results, requirements.workloads)
    systems = dict.fromkeys(
        [*(one.system for one in results), *(system for one in skipped for system in one.systems or ())]
    )
    found = []
    for system in systems:
        missing = missing_words(skipped, system)
        for item in requirements.must:
            wanted = requirements.workloads[item.of]
            answered = answer(points_of(results, system, wanted), item)
            if not wanted.precision and answered.precision not in USUAL_PRECISIONS:
                doubt = f"in {answered.precision}: the requirements name no precision"
                answered = answered._replace(doubts=(doubt, *answered.doubts))
            verdict = _judge(item, system, answered)
            if missing and verdict.outcome is not Outcome.FAILED:
                reason = "; ".join(filter(None, [verdict.reason, missing]))
                verdict = verdict._replace(outcome=Outcome.OPEN, reason=reason)
            found.append(verdict)
    return found


def missing_words(skipped: Sequence[Skipped], system: str) -> str:
    """Say how much is missing that may be runs of a system; empty if nothing is."""
    missing = sum(one.may_be_of(system) for one in skipped)
    return f"runs are missing ({count(missing, 'reason')})" if missing else ""


def _judge(item: Item, system: str, found: Answer) -> Verdict:
    reason = ""
    if found.why_not:
        outcome, reason = Outcome.FAILED if found.is_failure else Outcome.OPEN, found.why_not
    elif found.estimate is None:
        outcome = Outcome.PASSED if _keeps(item, found.exact) else Outcome.FAILED
    elif found.interval is None:
        outcome, reason = Outcome.OPEN, "one run gives no interval"
    elif (outcome := judge(partial(_keeps, item), found.interval)) is Outcome.OPEN:
        ends = " to ".join(rounded(end) for end in found.interval)
        narrower = found.by_sampling.interval_of_best(found.points) if found.by_sampling else None
        if narrower and judge(partial(_keeps, item), narrower) is Outcome.PASSED:
            reason = f"it passes only without the accuracy of the sensor; with it, {ends}"
        else:
            reason = f"the limit is within the interval, {ends}{_of_best(found)}"
    return Verdict(item, system, outcome, found, reason)


def _of_best(found: Answer) -> str:
    if found.points < 2:
        return ""
    return f" for the best of {found.points} points: to narrow it, the requirement can name devices and global_batch"


def _keeps(item: Item, value: float | str | None) -> bool:
    if value is None:
        return False
    if item.at_least is not None:
        return value >= item.at_least  # type: ignore[operator]  # both are numbers, or grades, which sort by their names
    return value <= item.at_most  # type: ignore[operator]
