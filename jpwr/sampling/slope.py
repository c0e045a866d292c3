"""The power of a channel that has a counter alone: how fast it counts."""

from __future__ import annotations

import math

from jpwr.channel import MOST_W

LEAST_STEP = 0.5  # of an interval: two readings that chance has put closer together tell no power
# A counter that two readings have shown unchanged has a slower pace than they have. When it changed is known by an
# interval then, which has to be short beside what lies between two changes.
LEAST_STEP_OF_A_SLOW_ONE = 4.0
STILL_S = 3.0  # after so long it counts no more, rather than has a slow pace


class Slope:
    """Watts from reading to reading of one counter that is read about every `interval_s`."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last_j = self._watts = math.nan
        self._bases = [(math.nan, math.nan)] * 2  # readings that are far enough from each other, the last one first
        self._is_slow = False
        self._since_change = False  # whether the last base is a reading that showed a new value

    def watts_at(self, time_s: float, counter_j: float) -> float:
        """Average power since a reading before that is far enough; the last one again where the counter has not been
        renewed since; `nan` for the first one, and for one that could not be read, fell, or is beyond any machine's.
        """
        if math.isnan(counter_j):
            return math.nan
        is_renewed, self._last_j = counter_j != self._last_j, counter_j
        (base_s, base_j), (older_s, older_j) = self._bases
        step_s, step_j = time_s - base_s, counter_j - base_j
        if not step_j >= 0:
            self._bases, self._watts = [(time_s, counter_j), (math.nan, math.nan)], math.nan
            self._since_change = False
        elif not is_renewed:
            self._is_slow = self._is_slow or step_s > 0
            if step_s > STILL_S:
                self._watts = 0.0
        elif self._is_slow and not self._since_change:  # of the first value it is not known how old it was
            self._bases[0], self._since_change = (time_s, counter_j), True
        elif step_s >= (LEAST_STEP_OF_A_SLOW_ONE if self._is_slow else LEAST_STEP) * self._interval_s:
            self._bases, self._watts = [(time_s, counter_j), self._bases[0]], step_j / step_s
        elif not self._is_slow:
            self._watts = (counter_j - older_j) / (time_s - older_s)
        return self._watts if self._watts <= MOST_W else math.nan
