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
MOST_S = 0.12  # a counter that is renewed less often is not waited for
PAUSE_S = 1.0  # marks that come faster than this do not make it read without end


class EdgeReader:
    """Reads beside one edge at a time. A sensor that hangs keeps whoever calls it: do so by `threads.within`."""

    def __init__(self, monitor: PowerMonitor, clock: Clock) -> None:
        self._monitor, self._clock = monitor, clock
        self._before_j: Sequence[float] = ()
        self._end_s = self._next_s = -math.inf
        self._asked, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="jpwr-edges", daemon=True)

    def whole(self) -> None:
        """There is an edge now: read all, then counters until there is nothing more to wait for."""
        self._monitor.sample()
        self._begin_to_wait()
        while self.waits:
            self._clock.sleep_until(self._clock.now_s() + STEP_S)
            self._monitor.sample_counters()

    def begin(self) -> None:
        """There is an edge now: read counters, and wait for the next values unless another edge was just before."""
        self._monitor.sample_counters()
        if self._clock.now_s() >= self._next_s:
            self._begin_to_wait()

    def begin_beside(self) -> None:
        """The same as begin() in the thread that start() has started: no sensor is waited for here."""
        self._asked.set()

    def start(self) -> None:
        threads.start(self._thread)

    def stop(self, limit_s: float) -> None:
        """Let the thread end; a sensor that does not answer is waited for only so long."""
        self._ended = True
        self._asked.set()
        self._thread.join(limit_s)

    def _run(self) -> None:
        while self._asked.wait() and not self._ended:
            self._asked.clear()
            self.begin()
            while self.waits and not self._asked.wait(STEP_S):
                self._monitor.sample_counters()

    @property
    def waits(self) -> bool:
        """Whether there is something to wait for."""
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
