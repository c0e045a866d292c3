"""Energy by a counter: bounds on what it counted in a window, from every reading.

Each value was reached at a refresh: after the last reading that showed another value, at most one refresh interval
before the last reading that shows it, and not after the first. From there on, power bounds the energy until any other
moment (estimation with bounded errors: Milanese and Vicino, Automatica 27 (1991) 997).
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from heapq import nsmallest
from itertools import compress, count, islice, repeat
from operator import add, gt, lt, mul, ne, sub
from typing import Iterator, NamedTuple, Sequence

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
    number: int  # first value after it


class Part(NamedTuple):
    """Part of a window without a fault, and the numbers of the values in it: from `first` to below `last`."""

    start_s: float
    end_s: float
    first: int
    last: int


class Value(NamedTuple):
    """Value of the counter, reached between two moments."""

    value_j: float
    early_s: float
    late_s: float


class CounterCurve:
    """Readings of a counter in joules at `times_s`, nan where one failed: a counter goes on counting meanwhile.

    A reading is the value of a moment within `half_s` of its time; an empty sequence stands for zeros.
    """

    def __init__(
        self,
        times_s: Sequence[float],
        energy_j: Sequence[float],
        info: ChannelInfo,
        power: PowerCurve,
        half_s: Sequence[float] = (),
    ) -> None:
        self._info, self._power = info, power
        self._accuracy = info.accuracy or ASSUMED_ACCURACY
        if not math.isfinite(sum(energy_j)):
            finite = bytes(map(math.isfinite, energy_j))
            times_s, energy_j, half_s = (array("d", compress(one, finite)) for one in (times_s, energy_j, half_s))
        self.read_s, self._read_j, self._half_s = times_s, energy_j, half_s
        # Index of the first reading of each value.
        self._firsts = array("L", [0][: len(times_s)])
        self._firsts.extend(compress(count(1), map(ne, islice(energy_j, 1, None), energy_j)))
        self.refresh_s = info.counter_refresh_s or _refresh_s(times_s, self._firsts[1:], max(half_s, default=0.0))
        self._faults = sorted(self._find_faults())
        # Values before a fault do not bound the energy after it.
        self._parts = list(self._find_parts())

    def _find_faults(self) -> Iterator[Fault]:
        """Yield the faults; a refresh that was late and counted all raises the refresh interval."""
        times_s, read_j, power = self.read_s, self._read_j, self._power
        resolution_j, last = self._info.counter_resolution_j, len(self._firsts) - 1
        for index in compress(count(1), map(lt, islice(read_j, 1, None), read_j)):
            yield Fault(times_s[index - 1], times_s[index], "fell", bisect_left(self._firsts, index))
        ends_s = map(times_s.__getitem__, map(sub, islice(self._firsts, 1, None), repeat(1)))
        shown_s = map(sub, ends_s, map(times_s.__getitem__, self._firsts))
        late = compress(count(), map(self.refresh_s.__lt__, shown_s)) if last + 1 < len(times_s) else ()
        for number in late:
            stood_s, step_j = self._shown_s(number), read_j[self._firsts[number + 1]] - read_j[self._firsts[number]]
            if step_j < 0 or stood_s <= self.refresh_s:
                continue
            # A late refresh would have counted at least the lowest power of the trace.
            if step_j + resolution_j < power.lowest_w * stood_s:
                start_s, end_s = (times_s[self._firsts[one]] for one in (number, number + 1))
                yield Fault(start_s, end_s, "stood still for a while", number + 1)
            else:
                self.refresh_s = stood_s
        stood_s = self._shown_s(last) - self.refresh_s if last > 0 else 0.0
        if stood_s > 0 and resolution_j < power.lowest_w * stood_s:
            yield Fault(times_s[self._firsts[last]], times_s[-1], "stood still", last + 1)
        if power.most_w < math.inf:
            longest_s = map(add, map(sub, islice(times_s, 1, None), times_s), repeat(self.refresh_s))
            most_j = map(add, map(mul, longest_s, repeat(power.most_w)), repeat(resolution_j))
            for index in compress(count(1), map(gt, map(sub, islice(read_j, 1, None), read_j), most_j)):
                number = bisect_left(self._firsts, index)
                before, after = self._values(number - 1, number + 1)
                if after.value_j - before.value_j - resolution_j > power.most_w * (after.late_s - before.early_s):
                    yield Fault(before.early_s, times_s[index], "jumped", number)

    def _find_parts(self) -> Iterator[Part]:
        """Yield the parts of all time between faults that have two values or more."""
        starts_s = {0: -math.inf, **{fault.number: fault.end_s for fault in self._faults}}
        ends_s = {len(self._firsts): math.inf, **{fault.number: fault.start_s for fault in reversed(self._faults)}}
        edges = sorted({*starts_s, *ends_s})
        for first, last in zip(edges, edges[1:]):
            if last - first > 1:
                yield Part(starts_s[first], ends_s[last], first, last)

    def _last(self, number: int) -> int:
        """Return the index of the last reading of a value."""
        return (self._firsts[number + 1] if number + 1 < len(self._firsts) else len(self.read_s)) - 1

    def _shown_s(self, number: int) -> float:
        """Return the shortest time in seconds for which a value may have been shown."""
        first, last = self._firsts[number], self._last(number)
        return self.read_s[last] - self._half(last) - self.read_s[first] - self._half(first)

    def _half(self, index: int) -> float:
        return self._half_s[index] if self._half_s else 0.0

    def _values(self, low: int, high: int) -> list[Value]:
        """Return the values with numbers from `low` to below `high`."""
        read_s, half, found = self.read_s, self._half, []
        edges = [*self._firsts[low : high + 1], len(read_s)][: high - low + 1]
        before_s = read_s[edges[0] - 1] - half(edges[0] - 1) if low else -math.inf
        for first, after in zip(edges, edges[1:]):
            first_s, half_s, last_s = read_s[first], half(first), read_s[after - 1] - half(after - 1)
            early_s = min(first_s - half_s, max(before_s, last_s - self.refresh_s))
            found.append(Value(self._read_j[first], early_s, first_s + half_s))
            before_s = last_s
        return found

    def _number(self, time_s: float) -> int:
        """Return the number of values that were first read until a moment."""
        return bisect_left(self._firsts, bisect_right(self.read_s, time_s))

    @property
    def fault(self) -> str:
        """First fault in the trace, as words that complete "the counter ..."; empty without one."""
        if not self.read_s:
            return "could not be read"
        if len(self._firsts) == 1:
            return "stood still"
        return self._faults[0].words if self._faults else ""

    def fault_within(self, start_s: float, end_s: float) -> str:
        """Return the last fault in a window, or the first in the trace, as words that complete "the counter ..."."""
        if self._parts and not self._is_read(start_s, end_s):
            return "was not read in that time"
        number = bisect_left(self._faults, Fault(end_s, 0.0, "", 0)) - 1
        is_within = number >= 0 and start_s < self._faults[number].end_s
        return self._faults[number].words if is_within else self.fault

    def _is_read(self, start_s: float, end_s: float) -> bool:
        return self.read_s[0] < end_s and start_s < self.read_s[-1]

    def parts(self, start_s: float, end_s: float) -> list[Part]:
        """Return the parts of a window in which the counter is sound, in the order of time."""
        first = max(0, bisect_left(self._parts, Part(start_s, 0.0, 0, 0)) - 1)
        some = self._parts[first : bisect_left(self._parts, Part(end_s, 0.0, 0, 0))]
        cut = (one._replace(start_s=max(start_s, one.start_s), end_s=min(end_s, one.end_s)) for one in some)
        return [one for one in cut if one.start_s < one.end_s and self._is_read(start_s, end_s)]

    def between(self, part: Part) -> EnergyEstimate:
        """Bound the energy of a part; the estimate is by a straight line between values, within the bounds."""
        start_low_j, start_high_j, start_j = self.bounds_j(part.start_s, part)
        end_low_j, end_high_j, end_j = self.bounds_j(part.end_s, part)
        low_j = max(0.0, end_low_j - start_high_j)
        high_j = min(end_high_j - start_low_j, self._power.most_w * (part.end_s - part.start_s))
        if not high_j < math.inf:
            return EnergyEstimate(unknown="the counter was not read long enough before or after")
        if high_j < low_j:
            return EnergyEstimate(unknown="the counter counted more than the device can use")
        energy_j = min(high_j, max(low_j, end_j - start_j))
        systematic_j = max(high_j - energy_j, energy_j - low_j)
        found = EnergyEstimate(energy_j, systematic_j, systematic_j, "counter", counter_j=energy_j)
        return found._replace(counter_low_j=low_j, counter_high_j=high_j)

    def has_new_value(self, start_s: float, end_s: float) -> bool:
        """Whether a value was first seen in a window."""
        return self._number(start_s) < self._number(end_s)

    def bounds_j(self, time_s: float, part: Part | None = None) -> tuple[float, float, float]:
        """Return the lower bound, upper bound and best estimate of the counter at a moment, in joules.

        Only the values of the part are used, or all values.
        """
        low, high = (part.first, part.last) if part else (0, len(self._firsts))
        after = min(high, max(low, self._number(time_s)))
        first = max(low, after - NEIGHBOURS)
        near = self._values(first, max(first + 1, min(high, after + NEIGHBOURS)))
        low_j, high_j = self._bounds_by_j(near, time_s, *self._range_w(near, time_s))
        if low_j > high_j:  # power exceeded what the samples nearby have seen
            low_j, high_j = self._bounds_by_j(near, time_s, 0.0, self._power.most_w)
        if math.isinf(high_j - low_j) and self._power.times_s:  # beyond the first or last value, without a limit
            low_j, high_j = self._bounds_by_j(near, time_s, 0.0, self._power.highest_w)
        before = max(0, min(after - first - 1, len(near) - 2))
        one, two = near[before], near[min(before + 1, len(near) - 1)]
        before_s, after_s = (one.early_s + one.late_s) / 2, (two.early_s + two.late_s) / 2
        share = (time_s - before_s) / (after_s - before_s) if -math.inf < before_s < after_s else 0.0
        line_j = one.value_j + share * (two.value_j - one.value_j)
        return low_j, high_j, min(high_j, max(low_j, line_j))

    def _bounds_by_j(self, near: Sequence[Value], time_s: float, low_w: float, high_w: float) -> tuple[float, float]:
        """Return bounds on the counter at a moment, by values and two bounds on power in watts."""
        low_j = max(one.value_j + _rise_j(time_s - one.late_s, low_w, high_w) for one in near)
        high_j = min(one.value_j + _rise_j(time_s - one.early_s, high_w, low_w) for one in near)
        return low_j, high_j + self._info.counter_resolution_j

    def _range_w(self, near: Sequence[Value], time_s: float) -> tuple[float, float]:
        """Return the range of power around a moment in watts: of the samples, unless the counter contradicts it."""
        most_w, resolution_j = self._power.most_w, self._info.counter_resolution_j
        low_w, high_w = self._power.range_w(min(time_s, near[0].late_s), max(time_s, near[-1].late_s))
        low_w, high_w = (1 - self._accuracy) * low_w, min((1 + self._accuracy) * high_w, max(high_w, most_w))
        for one, two in zip(near, near[1:]):
            step_j = two.value_j - one.value_j
            longest_s, shortest_s = two.late_s - one.early_s, two.early_s - one.late_s
            if step_j - resolution_j > high_w * longest_s or step_j + resolution_j < low_w * shortest_s:
                return 0.0, most_w
        return low_w, high_w

    def longest_sound(self, start_s: float, end_s: float) -> Part | None:
        """Return the longest part of a window in which the counter was read and is sound; None without one."""
        read = self.parts(max(start_s, self.read_s[0]), min(end_s, self.read_s[-1]))
        return max(read, key=lambda part: part.end_s - part.start_s, default=None)


def _rise_j(since_s: float, ahead_w: float, back_w: float) -> float:
    """Return the energy in a time from a moment on, or before it if the time is negative; power may be infinite."""
    return since_s * (ahead_w if since_s >= 0 else back_w) if since_s else 0.0


def _refresh_s(times_s: Sequence[float], changed: Sequence[int], half_s: float = 0.0) -> float:
    """Return the longest refresh interval in seconds that the readings allow, if it is constant.

    From the reading before one change to the next change there are two refreshes. And a gap g between two readings
    shows a change with probability g / T: T is at most the value for which changes in all of the shortest gaps have a
    probability of 0.001. A thousand of them bring T within 1 % of their mean. Times are exact to within `half_s`.
    """
    if len(changed) < 2:
        return math.inf
    before_s = map(times_s.__getitem__, map(sub, changed, repeat(1)))
    shortest_s: float = min(map(sub, map(times_s.__getitem__, islice(changed, 1, None)), before_s)) + 2 * half_s
    is_still = bytearray(b"\1") * (len(times_s) - 1)
    for index in changed:
        is_still[index - 1] = False
    still_s = min(compress(map(sub, islice(times_s, 1, None), times_s), is_still), default=math.inf)
    short_s = filter(still_s.__gt__, map(sub, islice(times_s, 1, None), times_s))
    sum_of_logs = -math.log(1 - TEST_LEVEL)
    for number, gap_s in enumerate(nsmallest(round(1 / (1 - TEST_LEVEL)), short_s), 1):
        if gap_s + 2 * half_s > 0:
            sum_of_logs += math.log(gap_s + 2 * half_s)
            shortest_s = min(shortest_s, math.exp(sum_of_logs / number))
    return shortest_s
