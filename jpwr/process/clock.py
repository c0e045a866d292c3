"""The only place in jpwr where time comes from.

Times are seconds of the node's monotonic clock, which no clock adjustment moves and which all processes of the
node share; `epoch_offset_s` turns them into seconds since 1970.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

SHORT_S = 0.02  # so short a sleep is not ended by wake(): it takes half of the CPU time of one that is


class Clock:
    """A clock that can be slept on; tests put their own in its place."""

    epoch_offset_s = 0.0

    def now_s(self) -> float:
        raise NotImplementedError

    def sleep_until(self, deadline_s: float) -> None:
        """Return at `deadline_s`, or soon after wake() is called."""
        raise NotImplementedError

    def wake(self) -> None:
        """End the sleep that is on, and every later one, soon."""
        raise NotImplementedError


class SystemClock(Clock):
    """CLOCK_MONOTONIC, with one epoch offset taken at the start."""

    def __init__(self) -> None:
        self.epoch_offset_s = time.time() - time.monotonic()
        # A lock that is held for as long as sleep is in order: waiting for it costs half of what an Event does.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    now_s = staticmethod(time.monotonic)

    def sleep_until(self, deadline_s: float) -> None:
        left_s = deadline_s - time.monotonic()
        if left_s <= SHORT_S:
            if left_s > 0:
                time.sleep(left_s)
        elif self._asleep.acquire(True, min(left_s, threading.TIMEOUT_MAX)):
            self.wake()

    def wake(self) -> None:
        with suppress(RuntimeError):  # awake already
            self._asleep.release()
