"""Outcomes of requirements, and the exit code of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from results.points.estimate import Interval


class Outcome(Enum):
    """Outcome of one requirement."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


def judge(meets_limit: Callable[[float], bool], interval: Interval) -> Outcome:
    """Return PASSED if the whole interval meets the limit, FAILED if no part of it does, else UNDECIDED."""
    ends = [meets_limit(end) for end in interval]
    return Outcome.PASSED if all(ends) else Outcome.UNDECIDED if any(ends) else Outcome.FAILED


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 0 if all passed, 1 if one failed, 3 if none failed and one is undecided."""
    distinct = set(outcomes)
    return 1 if Outcome.FAILED in distinct else 3 if Outcome.UNDECIDED in distinct else 0
