"""Energy by a counter: bounds on what it counted in a window, from every reading.

Each value was reached at a refresh: after the last reading that showed another value, at most one refresh interval
before the last reading that shows it, and not after the first. From there on, power bounds the energy until any other
moment (estimation with bounded errors: Milanese and Vicino, Automatica 27 (1991) 997).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import takewhile
from operator import itemgetter, ne, sub
from typing import NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy.estimate import EnergyEstimate
from jpwr.energy.power import PowerCurve
from jpwr.energy.statistics import ASSUMED_ACCURACY, TEST_LEVEL

NEIGHBOURS = 8  # values on each side of a moment that bound it; more would narrow no bound noticeably


class Fault(NamedTuple):
    """A time in which the counter cannot be right."""

    start_s: float
    end_s: float
    words: str  # completes "the counter ..."


class CounterCurve:
    """Readings of a counter in joules at `times_s`, nan where one failed: a counter goes on counting meanwhile."""

    def __init__(
        self, times_s: Sequence[float], energy_j: Sequence[float], info: ChannelInfo, power: PowerCurve
    ) -> None:
        self._info, self._power = info, power
        self._accuracy = info.accuracy or ASSUMED_ACCURACY
        finite = [(time_s, value_j) for time_s, value_j in zip(times_s, energy_j) if math.isfinite(value_j)]
        self.read_s, self._read_j = [time_s for time_s, _ in finite], [value_j for _, value_j in finite]
        self.values_j: list[float] = []
        self._faults: list[Fault] = []
        if finite:
            self._find_values()

    def _find_values(self) -> None:
        times_s, read_j, info, power = self.read_s, self._read_j, self._info, self._power
        changed = [index for index, differs in enumerate(map(ne, read_j[1:], read_j), 1) if differs]
        firsts, lasts = [0, *changed], [*(index - 1 for index in changed), len(times_s) - 1]
        self.values_j = [read_j[first] for first in firsts]
        first_s, last_s = [times_s[first] for first in firsts], [times_s[last] for last in lasts]
        before_s = [-math.inf, *(times_s[first - 1] for first in changed)]
        steps_j = list(map(sub, self.values_j[1:], self.values_j))
        refresh_s = info.counter_refresh_s or _refresh_s(times_s, changed)
        for number, step_j in enumerate(steps_j):
            shown_s, next_s = last_s[number] - first_s[number], first_s[number + 1]
            if step_j < 0:
                self._faults.append(Fault(last_s[number], next_s, "fell"))
            elif shown_s > refresh_s and step_j + info.counter_resolution_j < power.lowest_w * shown_s:
                # A late refresh would have counted at least the lowest power of the trace.
                self._faults.append(Fault(first_s[number], next_s, "stood still for a while"))
            elif shown_s > refresh_s:
                refresh_s = shown_s
        stood_s = last_s[-1] - first_s[-1] - refresh_s
        if stood_s > 0 and info.counter_resolution_j < power.lowest_w * stood_s:
            self._faults.append(Fault(first_s[-1], times_s[-1], "stood still"))
        self.refresh_s = refresh_s
        self.late_s = first_s
        self.early_s = [
            min(first, max(before, last - refresh_s)) for before, first, last in zip(before_s, first_s, last_s)
        ]
        self._middles_s = [(early + late) / 2 for early, late in zip(self.early_s, self.late_s)]
        for number, step_j in enumerate(steps_j):
            longest_s = first_s[number + 1] - self.early_s[number]
            if step_j - info.counter_resolution_j > power.most_w * longest_s:
                self._faults.append(Fault(self.early_s[number], first_s[number + 1], "jumped"))
        self._faults.sort()
        # Values before a fault do not bound the energy after it.
        self._parts = [0, *sorted({bisect_left(first_s, fault.end_s) for fault in self._faults}), len(first_s)]

    @property
    def fault(self) -> str:
        """First fault in the trace, as words that complete "the counter ..."; empty without one."""
        if not self.read_s:
            return "could not be read"
        if len(self.values_j) == 1:
            return "stood still"
        return self._faults[0].words if self._faults else ""

    def between(self, start_s: float, end_s: float) -> EnergyEstimate:
        """Bound the energy of a window; the estimate is by a straight line between values, within the bounds."""
        if len(self.values_j) < 2:
            return _unknown(self.fault)
        for fault in self._faults:
            if fault.start_s < end_s and start_s < fault.end_s:
                return _unknown(fault.words)
        if end_s <= self.read_s[0] or self.read_s[-1] <= start_s:
            return _unknown("was not read in that time")
        start_low_j, start_high_j, start_j = self.bounds_j(start_s)
        end_low_j, end_high_j, end_j = self.bounds_j(end_s)
        low_j = max(0.0, end_low_j - start_high_j)
        high_j = min(end_high_j - start_low_j, self._power.most_w * (end_s - start_s))
        if not high_j < math.inf:
            return _unknown("was not read long enough before or after")
        if high_j < low_j:
            return _unknown("counted more than the device can use")
        energy_j = min(high_j, max(low_j, end_j - start_j))
        systematic_j = max(high_j - energy_j, energy_j - low_j)
        found = EnergyEstimate(energy_j, systematic_j, systematic_j, "counter", counter_j=energy_j)
        return found._replace(counter_low_j=low_j, counter_high_j=high_j)

    def has_new_value(self, start_s: float, end_s: float) -> bool:
        """Whether a value was first seen in a window."""
        return bisect_right(self.late_s, start_s) < bisect_right(self.late_s, end_s)

    def bounds_j(self, time_s: float) -> tuple[float, float, float]:
        """Return the lower bound, upper bound and best estimate of the counter at a moment, in joules."""
        after = bisect_right(self.late_s, time_s)
        part = min(bisect_right(self._parts, max(0, after - 1)), len(self._parts) - 1)
        first = max(self._parts[part - 1], after - NEIGHBOURS)
        last = max(first, min(self._parts[part], after + NEIGHBOURS) - 1)
        low_j, high_j = self._bounds_by_j(first, last, time_s, *self._range_w(first, last, time_s))
        if low_j > high_j:  # power exceeded what the samples nearby have seen
            low_j, high_j = self._bounds_by_j(first, last, time_s, 0.0, self._power.most_w)
        if math.isinf(high_j - low_j) and self._power.times_s:  # beyond the first or last value, without a limit
            low_j, high_j = self._bounds_by_j(first, last, time_s, 0.0, self._power.highest_w)
        before = max(first, min(after - 1, last - 1))
        after = min(before + 1, last)
        before_s, after_s = self._middles_s[before], self._middles_s[after]
        share = (time_s - before_s) / (after_s - before_s) if -math.inf < before_s < after_s else 0.0
        line_j = self.values_j[before] + share * (self.values_j[after] - self.values_j[before])
        return low_j, high_j, min(high_j, max(low_j, line_j))

    def _bounds_by_j(self, first: int, last: int, time_s: float, low_w: float, high_w: float) -> tuple[float, float]:
        """Return bounds on the counter at a moment, by a range of its values and two bounds on power in watts."""
        low_j, high_j = -math.inf, math.inf
        for number in range(first, last + 1):
            value_j = self.values_j[number]
            since_late_s, since_early_s = time_s - self.late_s[number], time_s - self.early_s[number]
            low_j = max(low_j, value_j + _rise_j(since_late_s, low_w, high_w))
            high_j = min(high_j, value_j + self._info.counter_resolution_j + _rise_j(since_early_s, high_w, low_w))
        return low_j, high_j

    def _range_w(self, first: int, last: int, time_s: float) -> tuple[float, float]:
        """Return the range of power around a moment in watts: of the samples, unless the counter contradicts it."""
        most_w, resolution_j = self._power.most_w, self._info.counter_resolution_j
        low_w, high_w = self._power.range_w(min(time_s, self.late_s[first]), max(time_s, self.late_s[last]))
        low_w, high_w = (1 - self._accuracy) * low_w, min((1 + self._accuracy) * high_w, max(high_w, most_w))
        for number in range(first, last):
            step_j = self.values_j[number + 1] - self.values_j[number]
            longest_s = self.late_s[number + 1] - self.early_s[number]
            shortest_s = self.early_s[number + 1] - self.late_s[number]
            if step_j - resolution_j > high_w * longest_s or step_j + resolution_j < low_w * shortest_s:
                return 0.0, most_w
        return low_w, high_w

    def longest_sound(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Return start and end of the longest part of a window in which the counter was read and has no fault."""
        starts_s = [max(start_s, self.read_s[0]), *(fault.end_s for fault in self._faults)]
        ends_s = [*(fault.start_s for fault in self._faults), min(end_s, self.read_s[-1])]
        return max(zip(starts_s, ends_s), key=lambda part: part[1] - part[0])


def _unknown(fault: str) -> EnergyEstimate:
    return EnergyEstimate(unknown=f"the counter {fault}")


def _rise_j(since_s: float, ahead_w: float, back_w: float) -> float:
    """Return the energy in a time from a moment on, or before it if the time is negative; power may be infinite."""
    return since_s * (ahead_w if since_s >= 0 else back_w) if since_s else 0.0


def _refresh_s(times_s: Sequence[float], changed: Sequence[int]) -> float:
    """Return the longest refresh interval in seconds that the readings allow, if it is constant.

    From the reading before one change to the next change there are two refreshes. And a gap g between two readings
    shows a change with probability g / T: T is at most the value for which changes in all of the shortest gaps have a
    probability of 0.001.
    """
    if len(changed) < 2:
        return math.inf
    shortest_s = min(times_s[after] - times_s[before - 1] for before, after in zip(changed, changed[1:]))
    has_changed = set(changed)
    gaps = sorted((times_s[index] - times_s[index - 1], index in has_changed) for index in range(1, len(times_s)))
    sum_of_logs = -math.log(1 - TEST_LEVEL)
    for count, (gap_s, _) in enumerate(takewhile(itemgetter(1), gaps), 1):
        if gap_s > 0:
            sum_of_logs += math.log(gap_s)
            shortest_s = min(shortest_s, math.exp(sum_of_logs / count))
    return shortest_s
