"""Energy by a counter: bounds on what it counted until any moment, from every reading.

A value v is read first at t1 and last at t2, and the reading before it, at t0, shows another value. The counter
refreshes at least each T. So it reached v at a moment between a = max(t0, t2 - T) and b = t1, and the energy E was then
from v to v + resolution. With a power from p to P around a moment t (estimation with bounded errors: Milanese and
Vicino, Automatica 27 (1991) 997):

    E(t) <= v + resolution + P (t - a) for t >= a,   v + resolution - p (a - t) for t < a
    E(t) >= v              + p (t - b) for t >= b,   v              - P (b - t) for t < b

The lowest upper and the highest lower bound of all values count. A value does not bound E beyond a fault of the
counter.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import chain, compress, count, islice, repeat
from operator import add, gt, lt, mul, ne, sub
from typing import Any, Callable, Iterator, NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy.estimate import EnergyEstimate
from jpwr.energy.power import PowerCurve
from jpwr.intervals import ASSUMED_ACCURACY, SAMPLES_FOR_A_PEAK, Numbers
from jpwr.stored import kept_as, searches

UNSEEN = 3  # counters that are stated to refresh each 0.1 s were seen to pause for 0.3 s
NEIGHBOURS = 8  # values on each side of a moment that bound it; more would narrow no bound noticeably


class Value(NamedTuple):
    """Value of the counter, which it reached between two moments."""

    value_j: float
    earliest_s: float  # a
    latest_s: float  # b
    seen_s: float  # t2

    def highest_j(self, time_s: float, low_w: float, high_w: float) -> float:
        """Return the upper bound at a moment by this value, without the resolution, for a range of power in watts."""
        after_s = time_s - self.earliest_s
        return self.value_j + _product(after_s, high_w if after_s >= 0 else low_w)

    def lowest_j(self, time_s: float, low_w: float, high_w: float) -> float:
        """Return the lower bound at a moment by this value, for a range of power in watts."""
        after_s = time_s - self.latest_s
        return self.value_j + _product(after_s, low_w if after_s >= 0 else high_w)


def _product(seconds: float, watts: float) -> float:
    return seconds * watts if seconds else 0.0  # watts may be infinite


class Span(NamedTuple):
    """Fault, before the value `first`; or time of the sound values from number `first` to below `last`."""

    start_s: float
    end_s: float
    words: str = ""  # completes "the counter ..."
    first: int = 0
    last: int = 0


class CounterCurve:
    """Readings of a counter in joules at `times_s` ± `half_s`, nan where one failed: it goes on counting meanwhile."""

    def __init__(
        self, times_s: Numbers, energy_j: Numbers, info: ChannelInfo, power: PowerCurve, half_s: Numbers = ()
    ) -> None:
        self._info, self._power, self._accuracy = info, power, info.accuracy or ASSUMED_ACCURACY
        if not math.isfinite(sum(energy_j)):
            columns = (times_s, energy_j, half_s)
            times_s, energy_j, half_s = (kept_as(one, compress(one, map(math.isfinite, energy_j))) for one in columns)
        self.read_s, self._read_j, self._half_s = times_s, energy_j, half_s
        self._left, self._right = searches(times_s)
        # Index of the first reading of each value.
        self._firsts = kept_as(times_s, chain(range(min(1, len(energy_j))), _where(ne, energy_j)), "I")
        # From the reading before one change to the next change there are two refreshes.
        longest_s = min(map(sub, islice(self._starts_s(), 2, None), self._ends_s()), default=math.inf)
        self.refresh_s = info.counter_refresh_s or longest_s + 2 * max(half_s, default=0.0)  # T
        # A stated interval is no bound. Of 59 pauses, the longest is above 95 % of all (Wilks); of fewer, none need be.
        steps_s = map(sub, islice(self._starts_s(), 1, None), self._starts_s())
        self._few = sum(map((2 * self.refresh_s).__ge__, steps_s)) < SAMPLES_FOR_A_PEAK
        self.refresh_s *= UNSEEN if self._few and info.counter_refresh_s else 1
        self._faults = sorted(self._find_faults())
        starts_s = {0: -math.inf, **{fault.first: fault.end_s for fault in self._faults}}
        ends_s = {len(self._firsts): math.inf, **{fault.first: fault.start_s for fault in reversed(self._faults)}}
        edges = sorted({*starts_s, *ends_s})
        parts = (Span(starts_s[first], ends_s[last], "", first, last) for first, last in zip(edges, edges[1:]))
        self._parts = [part for part in parts if part.last - part.first > 1]

    def between(self, part: Span) -> EnergyEstimate:
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
        estimate = EnergyEstimate(energy_j, systematic_j, systematic_j, "counter", counter_j=energy_j)
        return estimate._replace(counter_low_j=low_j, counter_high_j=high_j)

    def bounds_j(self, time_s: float, part: Span | None = None) -> tuple[float, float, float]:
        """Return the lower bound, upper bound and best estimate of the counter in joules, from the values of a part."""
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
        line_j = self._line_j(near[before], near[min(before + 1, len(near) - 1)], time_s)
        return low_j, high_j, min(high_j, max(low_j, line_j))

    def _bounds_by_j(self, near: Sequence[Value], time_s: float, low_w: float, high_w: float) -> tuple[float, float]:
        low_j = max(value.lowest_j(time_s, low_w, high_w) for value in near)
        high_j = min(value.highest_j(time_s, low_w, high_w) for value in near)
        return low_j, high_j + self._info.counter_resolution_j

    def _line_j(self, before: Value, after: Value, time_s: float) -> float:
        """Return the straight line between two values at a moment; each is at the middle of when it may be from."""
        usual_s = self._info.counter_refresh_s or math.inf
        before_s, after_s = (
            (max(value.earliest_s, value.latest_s - usual_s) + value.latest_s) / 2 for value in (before, after)
        )
        share = (time_s - before_s) / (after_s - before_s) if -math.inf < before_s < after_s else 0.0
        return before.value_j + share * (after.value_j - before.value_j)

    def _range_w(self, near: Sequence[Value], time_s: float) -> tuple[float, float]:
        """Return the range of power around a moment in watts: of the samples, unless the counter contradicts it."""
        most_w, resolution_j = self._power.most_w, self._info.counter_resolution_j
        low_w, high_w = self._power.range_w(min(time_s, near[0].latest_s), max(time_s, near[-1].latest_s))
        low_w, high_w = (1 - self._accuracy) * low_w, min((1 + self._accuracy) * high_w, max(high_w, most_w))
        for one, two in zip(near, near[1:]):
            step_j = two.value_j - one.value_j
            longest_s, shortest_s = two.latest_s - one.earliest_s, two.earliest_s - one.latest_s
            if step_j - resolution_j > high_w * longest_s or step_j + resolution_j < low_w * shortest_s:
                return 0.0, most_w
        return low_w, high_w

    def _values(self, low: int, high: int) -> list[Value]:
        """Return the values with numbers from `low` to below `high`."""
        times_s, half_s, values = self.read_s, self._half_s, []
        edges = [*self._firsts[low : high + 1], len(times_s)][: high - low + 1]
        before_s = times_s[edges[0] - 1] - (half_s[edges[0] - 1] if half_s else 0.0) if low else -math.inf  # t0
        for first, after in zip(edges, edges[1:]):
            first_half_s, last_half_s = (half_s[first], half_s[after - 1]) if half_s else (0.0, 0.0)
            seen_s = times_s[after - 1] - last_half_s
            is_sound = seen_s <= times_s[first] - first_half_s + self.refresh_s  # else the last reading bounds nothing
            earliest_s = max(before_s, seen_s - self.refresh_s) if is_sound else before_s
            values.append(Value(self._read_j[first], earliest_s, times_s[first] + first_half_s, seen_s))
            before_s = seen_s
        return values

    def _number(self, time_s: float) -> int:
        """Return the number of values that were first read until a moment."""
        return self._left(self._firsts, self._right(self.read_s, time_s))

    def _starts_s(self) -> Iterator[float]:
        """Iterate over the times at which each value was first read."""
        return compress(self.read_s, chain([True], map(ne, islice(self._read_j, 1, None), self._read_j)))

    def _ends_s(self) -> Iterator[float]:
        """Iterate over the times at which each value but the last was last read."""
        return compress(self.read_s, map(ne, islice(self._read_j, 1, None), self._read_j))

    def _find_faults(self) -> Iterator[Span]:
        """Yield the faults; a refresh that was late and counted all raises the refresh interval."""
        times_s, read_j, firsts, most_w = self.read_s, self._read_j, self._firsts, self._power.most_w
        resolution_j, lowest_w, last = self._info.counter_resolution_j, self._power.lowest_w, len(firsts) - 1
        for index in _where(lt, read_j):
            yield Span(times_s[index - 1], times_s[index], "fell", self._left(firsts, index))
        shown_s = map(sub, self._ends_s(), self._starts_s())
        for number in compress(count(), map(self.refresh_s.__lt__, shown_s)) if last + 1 < len(times_s) else ():
            one, two = self._values(number, number + 2)
            stood_s, step_j = one.seen_s - one.latest_s, two.value_j - one.value_j
            # A late refresh would have counted at least the lowest power of the trace.
            if 0 <= step_j < lowest_w * stood_s - resolution_j and stood_s > self.refresh_s:
                yield Span(times_s[firsts[number]], times_s[firsts[number + 1]], "stood still for a while", number + 1)
            elif step_j >= 0:  # where few pauses were seen, each may have gone on until the next value
                self.refresh_s = max(self.refresh_s, two.latest_s - one.latest_s if self._few else stood_s)
        for one in self._values(last, last + 1) if last > 0 else ():
            stood_s = one.seen_s - one.latest_s - self.refresh_s
            if stood_s > 0 and lowest_w * stood_s > resolution_j:
                yield Span(times_s[firsts[last]], times_s[-1], "stood still", last + 1)
        longest_s = map(add, map(sub, islice(times_s, 1, None), times_s), repeat(self.refresh_s))
        most_j = map(mul, longest_s, repeat(most_w))
        steps_j = map(sub, islice(read_j, 1, None), read_j)
        for index in compress(count(1), map(gt, steps_j, most_j)) if most_w < math.inf else ():
            number = self._left(firsts, index)
            one, two = self._values(number - 1, number + 1)
            if two.value_j - one.value_j - resolution_j > most_w * (two.latest_s - one.earliest_s):
                yield Span(one.earliest_s, times_s[index], "jumped", number)

    def fault(self, start_s: float = -math.inf, end_s: float = math.inf) -> str:
        """Return the first fault in a window, as words that complete "the counter ..."; empty without one."""
        if len(self._firsts) < 2:
            return "stood still" if self.read_s else "could not be read"
        if not self._is_read(start_s, end_s):
            return "was not read in that time"
        return next((span.words for span in self._faults if span.start_s < end_s and start_s < span.end_s), "")

    def _is_read(self, start_s: float, end_s: float) -> bool:
        return bool(self.read_s) and self.read_s[0] < end_s and start_s < self.read_s[-1]

    def parts(self, start_s: float, end_s: float) -> list[Span]:
        """Return the parts of a window in which the counter was read and is sound, in the order of time."""
        first = max(0, bisect_left(self._parts, Span(start_s, start_s)) - 1)
        some = self._parts[first : bisect_left(self._parts, Span(end_s, end_s))]
        cut = (part._replace(start_s=max(start_s, part.start_s), end_s=min(end_s, part.end_s)) for part in some)
        return [part for part in cut if part.start_s < part.end_s and self._is_read(start_s, end_s)]

    def is_renewed(self, start_s: float, end_s: float) -> bool:
        """Whether a value was first seen in a window, or the window is as long as a refresh interval."""
        return self._number(start_s) < self._number(end_s) or end_s - start_s >= self.refresh_s


def _where(relation: Callable[[Any, Any], Any], numbers: Numbers) -> Iterator[int]:
    """Yield the index of each number that is in a relation, such as operator.lt, to the number before it."""
    return compress(count(1), map(relation, islice(numbers, 1, None), numbers))
