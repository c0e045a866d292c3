"""Requirements against results: each is passed, failed or undecided."""

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
from results.verdicts.quality import not_work_of_bf16
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
        """Interval of the number; None if there is none."""
        return self.answer.interval


def accept(
    results: Sequence[PointResults], requirements: Requirements, skipped: Sequence[Skipped] = ()
) -> list[Verdict]:
    """Return the verdict on every requirement for every system of the results and of the skipped files.

    No requirement passes for a system if a skipped file may be a run of it. Raises RecordError without requirements.
    """
    if not requirements.must:
        raise RecordError("the requirements have no list 'must': add one")
    check_alike(results, requirements.workloads)
    systems = dict.fromkeys(
        [*(one.system for one in results), *(system for one in skipped for system in one.systems or ())]
    )
    verdicts = []
    for system in systems:
        missing = missing_words(skipped, system)
        for item in requirements.must:
            wanted = requirements.workloads[item.of]
            mine = points_of(results, system, wanted)
            answered = answer(mine, item)
            if not wanted.precision and answered.precision not in USUAL_PRECISIONS:
                why_not = not_work_of_bf16(answered.best, mine) if answered.best else "it is of two points"
                doubt = f"in {answered.precision}: the requirements name no precision, and {why_not}"
                answered = answered._replace(doubts=(doubt, *answered.doubts) if why_not else answered.doubts)
            verdict = _judge(item, system, answered)
            if missing and verdict.outcome is not Outcome.FAILED:
                reason = "; ".join(filter(None, [verdict.reason, missing]))
                verdict = verdict._replace(outcome=Outcome.UNDECIDED, reason=reason)
            verdicts.append(verdict)
    return verdicts


def missing_words(skipped: Sequence[Skipped], system: str) -> str:
    """Return a note on skipped files that may be runs of a system; empty without any."""
    missing = sum(one.may_be_of(system) for one in skipped)
    return f"runs are missing ({count(missing, 'reason')})" if missing else ""


def _judge(item: Item, system: str, result: Answer) -> Verdict:
    reason = ""
    if result.why_not:
        outcome, reason = Outcome.FAILED if result.is_failure else Outcome.UNDECIDED, result.why_not
    elif result.estimate is None:
        outcome = Outcome.PASSED if _keeps(item, result.exact) else Outcome.FAILED
    elif result.interval is None:
        outcome, reason = Outcome.UNDECIDED, "one run gives no interval"
    elif (outcome := judge(partial(_keeps, item), result.interval)) is Outcome.UNDECIDED:
        ends = " to ".join(rounded(end) for end in result.interval)
        narrower = result.by_sampling.interval_of_best(result.points) if result.by_sampling else None
        if narrower and judge(partial(_keeps, item), narrower) is Outcome.PASSED:
            reason = f"it passes only without the accuracy of the sensor; with it, {ends}"
        else:
            reason = f"the limit is within the interval, {ends}{_of_best(result)}"
    return Verdict(item, system, outcome, result, reason)


def _of_best(result: Answer) -> str:
    if result.points < 2:
        return ""
    return f" for the best of {result.points} points: to narrow it, the requirement can name devices and global_batch"


def _keeps(item: Item, value: float | str | None) -> bool:
    if value is None:
        return False
    if item.at_least is not None:
        return value >= item.at_least  # type: ignore[operator]  # both are numbers, or grades, which sort by their names
    return value <= item.at_most  # type: ignore[operator]
