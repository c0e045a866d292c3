"""Progress messages every few seconds, with the time left."""

from __future__ import annotations

import time

INTERVAL_S = 2.0


def to_go(begun_s: float, done: int, total: int) -> str:
    """Return the time left in words, at the pace since `begun_s` of the monotonic clock."""
    return f"{(time.monotonic() - begun_s) / done * (total - done):.0f} s to go"


class Pace:
    """Clock of progress messages."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether the next message is due; true once in an interval."""
        now_s = time.monotonic()
        if now_s - self._last_s <= INTERVAL_S:
            return False
        self._last_s = now_s
        return True
