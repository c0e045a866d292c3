"""The only place in jpwr where time comes from.

Times are seconds of the node's monotonic clock, which no clock adjustment moves and which all processes of the
node share; `epoch_offset_s` turns them into seconds since 1970.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress


class Clock:
    """A clock that can be slept on; tests put their own in its place."""

    epoch_offset_s = 0.0

    def now_s(self) -> float:
        raise NotImplementedError

    def sleep_until(self, deadline_s: float) -> None:
        """Return at `deadline_s`, or as soon as wake() is called."""
        raise NotImplementedError

    def wake(self) -> None:
        """End the sleep that is on, and every later one, at once."""
        raise NotImplementedError


class SystemClock(Clock):
    """CLOCK_MONOTONIC, with one epoch offset taken at the start."""

    def __init__(self) -> None:
        self.epoch_offset_s = time.time() - time.monotonic()
        # A lock that is held for as long as sleep is in order: waiting for it costs half of what an Event does.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def now_s(self) -> float:
        return time.monotonic()

    def sleep_until(self, deadline_s: float) -> None:
        if self._asleep.acquire(timeout=min(max(0.0, deadline_s - time.monotonic()), threading.TIMEOUT_MAX)):
            self.wake()

    def wake(self) -> None:
        with suppress(RuntimeError):  # awake already
            self._asleep.release()
