"""Extra readings of counters at short intervals around a window's edge, until each counter has refreshed.

A counter is exact only at the moment of a refresh: the energy at a window's edge is as accurate as the time of the
refresh next to it.
"""

from __future__ import annotations

import math
import threading
from typing import Sequence

from jpwr.process import threads
from jpwr.process.clock import Clock
from jpwr.sampling import PowerMonitor

STEP_S = 0.004
MOST_S = 0.12  # longest wait for a refresh
PAUSE_S = 1.0  # between two waits, so that frequent marks do not cause continuous reading


class EdgeReader:
    """Reader of counters around one edge at a time.

    A sensor that hangs blocks the caller of read_all() and read_counters(): call them through `threads.within`.
    """

    def __init__(self, monitor: PowerMonitor, clock: Clock) -> None:
        self._monitor, self._clock = monitor, clock
        self._before_j: Sequence[float] = ()
        self._end_s = self._next_s = -math.inf
        self._asked, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="jpwr-edges", daemon=True)

    def read_all(self) -> None:
        """Read all channels at an edge that is now, then counters until each has refreshed or MOST_S have passed."""
        self._monitor.sample()
        self._begin_to_wait()
        while self.is_waiting:
            self._clock.sleep_until(self._clock.now_s() + STEP_S)
            self._monitor.sample_counters()

    def read_counters(self) -> None:
        """Read counters at an edge that is now, and wait for their refresh unless another edge was just before."""
        self._monitor.sample_counters()
        if self._clock.now_s() >= self._next_s:
            self._begin_to_wait()

    def request(self) -> None:
        """Let the thread that start() has started call read_counters(); return at once."""
        self._asked.set()

    def start(self) -> None:
        """Start the thread for request()."""
        threads.start(self._thread)

    def stop(self, limit_s: float) -> None:
        """End the thread; wait for a sensor that does not answer for at most `limit_s` seconds."""
        self._ended = True
        self._asked.set()
        self._thread.join(limit_s)

    def _run(self) -> None:
        while self._asked.wait() and not self._ended:
            self._asked.clear()
            self.read_counters()
            while self.is_waiting and not self._asked.wait(STEP_S):
                self._monitor.sample_counters()

    @property
    def is_waiting(self) -> bool:
        """Whether a counter has not refreshed since the edge and MOST_S have not passed."""
        if self._clock.now_s() >= self._end_s:
            return False
        if all(now != before or now != now for before, now in zip(self._before_j, self._monitor.recorder.counters_j)):
            self._end_s = -math.inf
            return False
        return True

    def _begin_to_wait(self) -> None:
        now_s = self._clock.now_s()
        self._before_j = list(self._monitor.recorder.counters_j)
        self._end_s, self._next_s = now_s + MOST_S, now_s + PAUSE_S
