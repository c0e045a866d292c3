"""Energy from the readings of an energy counter, and how sure it is.

Pure arithmetic: no clock, no files, no vendor library. A counter has a new value at moments of its own, its refreshes;
a reading shows the value of the last one. So the moments that count are those at which it was seen to change.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from operator import ne, sub
from typing import NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.pace import Change, Pace
from jpwr.power_curve import LONG_STEPS, MIN_STEPS_TO_TELL, PowerCurve
from jpwr.refresh import Refresh, find_refresh

# The difference of two moments that lie anywhere in a refresh is below this share of it in 95 of 100 cases.
DIFFERENCE_SHARE = 0.78
STEPS_TO_TELL_A_VALUE = 2  # a change of fewer steps of the counter's resolution says nothing of its refresh
NEIGHBOURS = 8
BEYOND_SEEN = 0.05  # of the range of samples, power may have been below the lowest and above the highest of them
ALIKE = 0.02  # powers that stay and differ by less are the same one, read in two ways
MIN_SAMPLES_TO_FOLLOW = 4
MUCH_SURER = 8.0  # so many times surer is worth the next value, further away
SHARP_S = 0.0025  # a moment that is known so well is sure enough
# A value that is shown for so many usual times may have held up the count. It has, if less was counted then than such
# a share of the lowest power, or of the mean, stands for.
STALL = 1.5
STALL_AT_END = 5.0  # where nothing after it tells how much was counted
LEAST_OF_LOWEST, LEAST_OF_MEAN = 0.9, 0.5
JUMP = 3.0  # a step that stands for so many times the highest power of all others is none of energy


class CounterEnergy(NamedTuple):
    """What a counter says of a window."""

    energy_j: float
    unsure_j: float  # half-width: when the counter was renewed, and its steps; it may be late by the same each time
    fault: str  # why it cannot be right, whatever power says


class Value(NamedTuple):
    """A value of the counter in joules, when it came, and half the width of what is not sure of that."""

    moment_s: float
    unsure_s: float
    value_j: float


class _Edge(NamedTuple):
    value_j: float
    unsure_j: float
    first: int  # between which two values' renewals it is
    last: int


class CounterCurve:
    """The energy counter of a channel between any two moments.

    `times_s` in seconds, `energy_j` in joules, `nan` where it could not be read: it goes on counting. Between two
    refreshes a straight line is drawn; how far off that may be is told by the power there.
    """

    def __init__(
        self, times_s: Sequence[float], energy_j: Sequence[float], info: ChannelInfo, power: PowerCurve
    ) -> None:
        self._info, self._power = info, power
        if not math.isfinite(sum(energy_j)):
            read = [(time_s, value) for time_s, value in zip(times_s, energy_j) if math.isfinite(value)]
            times_s, energy_j = [time_s for time_s, _ in read], [value for _, value in read]
        self.readings = len(times_s)
        self._read_s = (times_s[0], times_s[-1]) if times_s else (math.nan, math.nan)
        changed = [index for index, differs in enumerate(map(ne, energy_j[1:], energy_j), 1) if differs]
        self._faults = [(times_s[index], "fell") for index in changed if energy_j[index] < energy_j[index - 1]]
        values_j = [energy_j[index] for index in changed]
        self._faults += self._stood_at_the_ends(times_s, energy_j, changed)
        stalls = self._stalls(times_s, changed, values_j)
        for stall in stalls:
            for edge in changed[stall : stall + 2]:
                self._faults.append((times_s[edge], "stood still for a while"))
        least_j = STEPS_TO_TELL_A_VALUE * info.counter_resolution_j
        tells = [step_j > least_j for step_j in map(sub, values_j[1:], values_j)]
        for stall in stalls:
            tells[stall] = False
        refresh = self._find_refresh(times_s, changed, tells)
        self.refresh_s = refresh.longest_s
        if not self.readings:
            return
        # Of the first value it is not known when it was renewed.
        before_s = [-math.inf, *(times_s[index - 1] for index in changed)]
        self._seen_s = seen_s = [times_s[0], *(times_s[index] for index in changed)]
        self._values_j = [energy_j[0], *values_j]
        earliest_s = [max(before, seen - self.refresh_s) for before, seen in zip(before_s, seen_s)]
        self._pace: Pace | None = None
        if refresh.shortest_s:
            self._moments_s = [(earliest + seen) / 2 for earliest, seen in zip(earliest_s, seen_s)]
            self._unsure_s = [(seen - earliest) / 2 for earliest, seen in zip(earliest_s, seen_s)]
            shown_s = [shown if tell else -math.inf for shown, tell in zip(before_s[1:], [False, *tells])]
            self._pace = Pace(list(map(Change, [0, *changed], before_s, seen_s, [*shown_s, -math.inf])), refresh)
        else:
            # No reading has shown an old value: the refresh is short, and both edges are late by some of it.
            self._moments_s = seen_s
            self._unsure_s = [DIFFERENCE_SHARE / 2 * (seen - earliest) for earliest, seen in zip(earliest_s, seen_s)]
        # Average power from one refresh to the next, in watts; None where there is none.
        self._steps_w = [
            step_j / slot_s if slot_s > 0 and step_j >= 0 else None
            for step_j, slot_s in zip(
                map(sub, self._values_j[1:], self._values_j), map(sub, self._moments_s[1:], self._moments_s)
            )
        ]
        steps_w = [watts for watts in self._steps_w if watts is not None]
        self._faults = sorted(self._faults + self._jumps(sorted(steps_w)))
        self._fault_times_s = [time_s for time_s, _ in self._faults]
        self._least_w, self._peak_w = min(steps_w, default=math.nan), max(steps_w, default=math.nan)

    def _stood_at_the_ends(
        self, times_s: Sequence[float], energy_j: Sequence[float], changed: Sequence[int]
    ) -> list[tuple[float, str]]:
        """Where the first or the last value was shown for long, though power went on; by what a mean leaves open."""
        if len(changed) < MIN_STEPS_TO_TELL:
            return []
        seen_s = [times_s[index] for index in changed]
        slots_s = sorted(map(sub, seen_s[1:], seen_s))
        long_s = max(STALL_AT_END * slots_s[len(slots_s) // 2], STALL * slots_s[int(0.95 * len(slots_s))])
        found = []
        for start_s, end_s, counted_j, edges_s in (
            (times_s[0], times_s[changed[0] - 1], energy_j[changed[0]] - energy_j[0], (times_s[0], seen_s[0])),
            (seen_s[-1], times_s[-1], 0.0, (seen_s[-1], times_s[-1])),
        ):
            if self._power.times_s:  # the two are not read at the same moments
                start_s, end_s = max(start_s, self._power.times_s[0]), min(end_s, self._power.times_s[-1])
            if end_s - start_s <= long_s or not self._power.covers(start_s, end_s):
                continue
            lowest_w, highest_w = self._power.range_between_w(start_s, end_s)
            seen_j = self._power.energy_until_j(end_s) - self._power.energy_until_j(start_s)
            seen_j -= self._info.averaging_s * (highest_w - lowest_w)
            if counted_j + self._info.counter_resolution_j < LEAST_OF_MEAN * seen_j:
                found += [(edge_s, "stood still for a while") for edge_s in edges_s]
        return found

    def _stalls(self, times_s: Sequence[float], changed: Sequence[int], values_j: Sequence[float]) -> list[int]:
        """The values that were shown for long, and followed by less than power can have been meanwhile."""
        if len(changed) < MIN_STEPS_TO_TELL or self._power.lags:
            return []
        seen_s = [times_s[index] for index in changed]
        long_s = STALL * sorted(map(sub, seen_s[1:], seen_s))[len(seen_s) // 2]
        found = []
        for number, (start_s, next_index) in enumerate(zip(seen_s, changed[1:])):
            end_s = times_s[next_index - 1]
            shown_s = end_s - start_s
            if shown_s <= long_s or not self._power.covers(start_s, end_s):
                continue
            seen_j = self._power.energy_until_j(end_s) - self._power.energy_until_j(start_s)
            lowest_w, _ = self._power.range_between_w(start_s, end_s)
            least_j = max(LEAST_OF_LOWEST * lowest_w * shown_s, LEAST_OF_MEAN * seen_j)
            if values_j[number + 1] - values_j[number] + self._info.counter_resolution_j < least_j:
                found.append(number)
        return found

    def _find_refresh(self, times_s: Sequence[float], changed: Sequence[int], tells: Sequence[bool]) -> Refresh:
        documented_s = self._info.counter_refresh_s or math.inf
        if len(changed) < 2:
            return Refresh(min(documented_s, times_s[-1] - times_s[0] if times_s else 0.0), 0.0)
        found = find_refresh(times_s, changed, tells)
        return found if found.shortest_s else found._replace(longest_s=min(found.longest_s, documented_s))

    def _knot(self, index: int) -> tuple[float, float]:
        """When a value was renewed, in seconds, and half the width of what is not sure of that."""
        if self._pace is None or self._unsure_s[index] <= SHARP_S:
            return self._moments_s[index], self._unsure_s[index]
        earliest_s, latest_s = self._pace.moment_s(index)
        return (earliest_s + latest_s) / 2, (latest_s - earliest_s) / 2

    def renewals(self) -> list[Value]:
        """Each value that was renewed while it was read."""
        return self.values_every(-math.inf)

    def values_every(self, slot_s: float) -> list[Value]:
        """The values that were renewed so far from each other, or further."""
        found: list[Value] = []
        for index, moment_s in enumerate(self._moments_s[1:] if self.readings else [], 1):
            if not found or moment_s >= found[-1].moment_s + slot_s:
                found.append(Value(*self._knot(index), self._values_j[index]))
        return found

    @property
    def fault(self) -> str:
        """What is wrong with the counter alone somewhere in the trace, empty where nothing is."""
        if not self.readings:
            return "could not be read"
        if len(self._values_j) == 1:
            return "stood still"
        return self._faults[0][1] if self._faults else ""

    def is_sound(self, start_s: float, end_s: float) -> bool:
        """Whether nothing is wrong with the counter alone in a time."""
        return bisect_left(self._fault_times_s, start_s) == bisect_right(self._fault_times_s, end_s)

    def _jumps(self, steps_w: Sequence[float]) -> list[tuple[float, str]]:
        """Steps that no power explains, told from all of them in the order of their size."""
        if len(steps_w) < MIN_STEPS_TO_TELL:
            return []
        usual_w = JUMP * max(self._power.peak_w, steps_w[int(0.95 * len(steps_w))])
        if not steps_w[-1] > usual_w:
            return []
        found = []
        for slot in range(len(self._moments_s) - 1):
            # What was counted may be of all the time that is not sure.
            most_s = self._moments_s[slot + 1] - self._moments_s[slot] + self._unsure_s[slot] + self._unsure_s[slot + 1]
            if self._values_j[slot + 1] - self._values_j[slot] - self._info.counter_resolution_j > usual_w * most_s:
                found.append((self._moments_s[slot + 1], "jumped"))
        return found

    def goes_on(self, start_s: float, end_s: float) -> bool:
        """Whether it was seen to change before, and at or beyond the end of a time."""
        return self.readings > 0 and self._seen_s[0] <= start_s and end_s <= self._seen_s[-1] + self.refresh_s

    def between(self, start_s: float, end_s: float) -> CounterEnergy:
        """The energy of a window in joules; `nan` where the counter was never read."""
        if not self.readings:
            return CounterEnergy(math.nan, 0.0, "could not be read")
        if len(self._values_j) == 1:
            return CounterEnergy(0.0, 0.0, "stood still")
        reach_s = self._reach_s
        if start_s < self._read_s[0] - reach_s or end_s > self._read_s[1] + reach_s:
            return CounterEnergy(math.nan, 0.0, "was not read in all of that time")
        if self._power.times_s and end_s > max(self._seen_s[-1], self._power.times_s[-1]) + reach_s:
            return CounterEnergy(math.nan, 0.0, "stood still where power could not be read")
        start, end = self._edge(start_s), self._edge(end_s)
        first_s, last_s = min(start_s, self._seen_s[start.first]), max(end_s, self._seen_s[end.last])
        faults = self._faults[bisect_left(self._fault_times_s, first_s) : bisect_right(self._fault_times_s, last_s)]
        return CounterEnergy(
            energy_j=end.value_j - start.value_j,
            unsure_j=start.unsure_j + end.unsure_j + self._info.counter_resolution_j,
            fault=faults[0][1] if faults else "",
        )

    @property
    def _reach_s(self) -> float:
        """For how long it goes on as power does, before the first reading and after the last one."""
        return self.refresh_s + LONG_STEPS * self._power.usual_step_s

    def longest_sound(self, start_s: float, end_s: float) -> tuple[float, float]:
        """The longest part of a time in which the counter was read and nothing is wrong with it alone."""
        firsts_s = [self._read_s[0], *self._fault_times_s]
        lasts_s = [*map(self._shown_before_s, self._fault_times_s), self._read_s[1]]
        # A fault's own moment belongs to no part.
        parts = [
            (max(first_s, start_s) + 1e-9, min(last_s, end_s) - 1e-9) for first_s, last_s in zip(firsts_s, lasts_s)
        ]
        return max(parts, key=lambda part: part[1] - part[0])

    def _shown_before_s(self, time_s: float) -> float:
        """When the last value came that was seen before: up to there nothing is known of what is seen then."""
        index = bisect_left(self._seen_s, time_s) - 1
        return self._knot(index)[0] if index >= 0 else time_s

    def _edge(self, time_s: float) -> _Edge:
        slot = self._slot(time_s)
        if slot < 0 or slot == len(self._moments_s) - 1:
            return self._beyond(time_s, max(slot, 0))
        first, last = self._surer(slot, -1), self._surer(slot + 1, 1)
        (start_s, start_unsure_s), (end_s, end_unsure_s) = self._knot(first), self._knot(last)
        slot_s = end_s - start_s
        step_j = self._values_j[last] - self._values_j[first]
        share = _share(time_s, start_s, end_s)
        average_w = step_j / slot_s
        lowest_w, highest_w = self._levels_w(first, last, average_w)
        # Of all ways from here to there between these powers, a straight line is off by no more than this.
        rest = 1 - share
        above_w = min(highest_w * share, average_w - lowest_w * rest) - average_w * share
        below_w = average_w * share - max(lowest_w * share, average_w - highest_w * rest)
        shape_j = slot_s * max(above_w, below_w)
        # Both moments may be early, or both late.
        early_share = _share(time_s, start_s - start_unsure_s, end_s - end_unsure_s)
        late_share = _share(time_s, start_s + start_unsure_s, end_s + end_unsure_s)
        value_j = self._values_j[first] + share * step_j
        if shape_j:
            value_j, shape_j = self._followed(first, last, time_s, share, value_j, shape_j)
        moment_j = abs(step_j) * max(early_share - share, share - late_share)
        return _Edge(value_j, moment_j + shape_j, first, last)

    def _slot(self, time_s: float) -> int:
        """Which value's time a moment is in; -1 before the first one."""
        slot = bisect_right(self._moments_s, time_s) - 1
        while slot >= 0 and self._knot(slot)[0] > time_s:
            slot -= 1
        while slot + 1 < len(self._moments_s) and self._knot(slot + 1)[0] <= time_s:
            slot += 1
        return slot

    def _surer(self, index: int, step: int) -> int:
        """A value, or its neighbour where it is much surer when that was renewed."""
        neighbour = index + step
        if self._pace is None:
            return index
        if 0 <= neighbour < len(self._moments_s) and MUCH_SURER * self._knot(neighbour)[1] < self._knot(index)[1]:
            return neighbour
        return index

    def _levels_w(self, first: int, last: int, average_w: float) -> tuple[float, float]:
        """Between which powers it has been from one renewal to another, in watts."""
        power = self._power
        if power.lags:
            lowest_w, highest_w = self._range_of_steps_w(first, last)
            # A step is a mean itself, and hides as much as its own height of what was inside of it.
            hidden_w, alike, further_w = average_w / 2, 0.0, 0.0
        else:
            hidden_w = 0.0
            lowest_w, highest_w = power.range_between_w(self._knot(first)[0], self._knot(last)[0])
            further_w = BEYOND_SEEN * (highest_w - lowest_w)
            if power.may_be_old:
                least_w, most_w = self._sure_range_of_steps_w(first, last)
                lowest_w, highest_w = min(lowest_w, least_w), max(highest_w, most_w)
                # Where steps differ, power did so inside of them, too.
                hidden_w = max(0.0, most_w - least_w)
            alike = ALIKE if highest_w - lowest_w <= ALIKE * average_w else 0.0
        # A step that stands out among what was seen may hold less of something that is further off still.
        if average_w > (1 + alike) * highest_w or (power.lags and average_w >= highest_w):
            highest_w = max(power.peak_w, self._peak_w)
        if average_w < (1 - alike) * lowest_w or (power.lags and average_w <= lowest_w):
            lowest_w = min(power.least_w, self._least_w)
        beyond_w = hidden_w + further_w
        return max(0.0, min(lowest_w, average_w) - beyond_w), max(highest_w, average_w) + beyond_w

    def _range_of_steps_w(self, first: int, last: int) -> tuple[float, float]:
        """Lowest and highest average from one refresh to the next, here and around."""
        around_w = self._steps_w[max(0, first - NEIGHBOURS) : last + NEIGHBOURS]
        steps_w = [watts for watts in around_w if watts is not None]
        return min(steps_w, default=math.inf), max(steps_w, default=-math.inf)

    def _sure_range_of_steps_w(self, first: int, last: int) -> tuple[float, float]:
        """The same, of which each is so only as far as it is sure when the counter was renewed: where all may be of
        one power, the lowest is above the highest.
        """
        around = range(max(0, first - NEIGHBOURS), min(last + NEIGHBOURS, len(self._values_j) - 1) + 1)
        least_w, most_w = math.inf, -math.inf
        knots = [self._knot(index) for index in around]
        for index, (start_s, start_unsure_s), (end_s, end_unsure_s) in zip(around, knots, knots[1:]):
            step_j, unsure_s = self._values_j[index + 1] - self._values_j[index], start_unsure_s + end_unsure_s
            if step_j < 0 or end_s <= start_s:
                continue
            most_w = max(most_w, step_j / (end_s - start_s + unsure_s))
            if end_s - start_s > unsure_s:
                least_w = min(least_w, step_j / (end_s - start_s - unsure_s))
        return least_w, most_w

    def _followed(
        self, first: int, last: int, time_s: float, share: float, value_j: float, shape_j: float
    ) -> tuple[float, float]:
        """Follow the samples of power through a long slot, where that is surer than a straight line."""
        start_s, end_s = self._knot(first)[0], self._knot(last)[0]
        power = self._power
        if power.lags or power.may_be_old or not power.covers(start_s, end_s) or power.missed_j(start_s, end_s):
            return value_j, shape_j
        inside = power.between(start_s, end_s)
        if inside is None or inside.samples < MIN_SAMPLES_TO_FOLLOW or inside.sampling_j / 2 >= shape_j:
            return value_j, shape_j
        since_j = power.energy_until_j(time_s) - power.energy_until_j(start_s)
        step_j = self._values_j[last] - self._values_j[first]
        return self._values_j[first] + since_j + share * (step_j - inside.energy_j), inside.sampling_j / 2

    def _beyond(self, time_s: float, knot: int) -> _Edge:
        """Before the first refresh that was seen, or after the last one: as power goes on, for no longer than one."""
        moment_s, unsure_s = self._knot(knot)
        away_s = max(-self._reach_s, min(self._reach_s, time_s - moment_s))
        lowest_w, highest_w = self._power.range_between_w(min(moment_s, time_s), max(moment_s, time_s))
        middle_w = (self._power.at_w(moment_s) + self._power.at_w(moment_s + away_s)) / 2
        off_w = (highest_w - lowest_w) / 2
        # What is shown there is of before, or there is nothing: power may be any that was seen.
        if self._power.lags or not self._power.covers(min(moment_s, time_s), max(moment_s, time_s)):
            lowest_w, highest_w = min(self._power.least_w, self._least_w), max(self._power.peak_w, self._peak_w)
            off_w = max(middle_w - lowest_w, highest_w - middle_w)
        return _Edge(
            self._values_j[knot] + away_s * middle_w,
            max(abs(middle_w), off_w) * unsure_s + abs(away_s) * off_w,
            knot,
            knot,
        )


def _share(time_s: float, start_s: float, end_s: float) -> float:
    """How much of the time between two others is past at a moment."""
    return min(1.0, max(0.0, (time_s - start_s) / (end_s - start_s))) if end_s > start_s else 0.5
