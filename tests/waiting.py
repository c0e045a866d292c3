"""Waiting in tests: for what must be seen, however long a busy machine takes; the limit is against hanging alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 600.0
POLL_S = 0.02

Seen = TypeVar("Seen")


def until(look: Callable[[], Seen], what: str, explain: Callable[[], str] = lambda: "") -> Seen:
    """The first true answer of `look`; fails with `what` did not come, and an explanation such as a log."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (seen := look()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{what} did not come within {PATIENCE_S:.0f} s; {explain()}")
        time.sleep(POLL_S)
    return seen
