"""The sampler's clock.

Times are seconds of the node's monotonic clock, which is never adjusted and which all processes of the node share.
`epoch_offset_s` converts them into seconds since 1970.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

# wake() does not end a shorter sleep, which takes two thirds of the CPU time of one that can be ended.
SHORT_S = 0.25


class Clock:
    """CLOCK_MONOTONIC, with the epoch offset of its creation; tests have clocks of their own."""

    epoch_offset_s = 0.0
    now_s = staticmethod(time.monotonic)  # called directly, it takes a third of the time

    def __init__(self) -> None:
        self.epoch_offset_s = time.time() - time.monotonic()
        # Held until wake(): waiting for a lock takes half the CPU time of waiting for an Event.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def sleep_until(self, deadline_s: float) -> None:
        """Return at a time in seconds, or soon after a call of wake()."""
        left_s = deadline_s - time.monotonic()
        if left_s <= SHORT_S:
            if left_s > 0:
                time.sleep(left_s)
        elif self._asleep.acquire(True, min(left_s, threading.TIMEOUT_MAX)):
            self.wake()

    def wake(self) -> None:
        """End the current sleep, and every later one, soon."""
        with suppress(RuntimeError):  # released already
            self._asleep.release()
