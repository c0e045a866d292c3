"""What a requirement comes to, and the exit code of several."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Outcome(Enum):
    """Of a requirement; a passed one is one whose whole interval is within the limit."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "cannot be told"


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """0 where all are passed, 1 where one is failed, 3 where none is and one cannot be told."""
    found = set(outcomes)
    return 1 if Outcome.FAILED in found else 3 if Outcome.OPEN in found else 0
