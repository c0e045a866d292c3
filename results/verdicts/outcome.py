"""Outcomes of requirements, and the exit code of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from results.points.estimate import Interval


class Outcome(Enum):
    """Outcome of one requirement."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "cannot be told"


def judge(meets_limit: Callable[[float], bool], interval: Interval) -> Outcome:
    """Return PASSED if the whole interval meets the limit, FAILED if no part of it does, else OPEN."""
    ends = [meets_limit(end) for end in interval]
    return Outcome.PASSED if all(ends) else Outcome.OPEN if any(ends) else Outcome.FAILED


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 0 where all are passed, 1 where one is failed, 3 where none is and one cannot be told."""
    found = set(outcomes)
    return 1 if Outcome.FAILED in found else 3 if Outcome.OPEN in found else 0
