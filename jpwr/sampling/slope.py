"""Power of a channel without a power sensor: the slope of its energy counter."""

from __future__ import annotations

import math

from jpwr.channel import MOST_W

LEAST_STEP = 0.5  # intervals between two readings of a slope: closer ones resolve no power
# The time in which a value was read or refreshed has to be short compared with the time between the two values of a
# slope, which is at least so many times as long. A counter that two readings have shown unchanged refreshes less often
# than it is read: the moment of a refresh is then known to one interval only.
TIMES_LONGER = 4.0
STILL_S = 3.0  # a counter that is unchanged for longer has stopped: its power is 0


class Slope:
    """Slope in watts of one counter that is read about every `interval_s` seconds."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last_j = self._watts = math.nan
        self._bases = [(math.nan, math.nan, 0.0)] * 2  # of the last two slopes, latest first: time, value, half_s
        self._is_slow = False
        self._since_change = False  # whether the latest base showed a new value

    def watts_at(self, time_s: float, counter_j: float, half_s: float = 0.0) -> float:
        """Return the average power in watts since an earlier reading, or the last power if the counter is unchanged.

        The counter was read within `half_s` seconds of `time_s`. Return nan for the first reading, a failed one, a
        counter that fell, and a power above MOST_W.
        """
        if math.isnan(counter_j):
            return math.nan
        has_refreshed, self._last_j = counter_j != self._last_j, counter_j
        now = time_s, counter_j, half_s
        (base_s, base_j, base_half_s), (older_s, older_j, _) = self._bases
        step_s, step_j = time_s - base_s, counter_j - base_j
        if not step_j >= 0:
            self._bases, self._watts = [now, (math.nan, math.nan, 0.0)], math.nan
            self._since_change = False
        elif not has_refreshed:
            self._is_slow = self._is_slow or step_s > 0
            if step_s > STILL_S:
                self._watts = 0.0
        elif self._is_slow and not self._since_change:  # the age of the first value is unknown
            self._bases[0], self._since_change = now, True
        elif step_s < TIMES_LONGER * (half_s + base_half_s):
            pass  # a call took long
        elif step_s >= (TIMES_LONGER if self._is_slow else LEAST_STEP) * self._interval_s:
            self._bases, self._watts = [now, self._bases[0]], step_j / step_s
        elif not self._is_slow:
            self._watts = (counter_j - older_j) / (time_s - older_s)
        return self._watts if self._watts <= MOST_W else math.nan
