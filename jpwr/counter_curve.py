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
from jpwr.power_curve import LONG_STEPS, MIN_STEPS_TO_TELL, PowerCurve, Refresh, find_refresh

# The difference of two moments that lie anywhere in a refresh is below this share of it in 95 of 100 cases.
DIFFERENCE_SHARE = 0.78
STEPS_TO_TELL_A_VALUE = 2  # a change of fewer steps of the counter's resolution says nothing of its refresh
NEIGHBOURS = 8
ALIKE = 0.02  # powers that differ by less are the same one, read in two ways
MIN_SAMPLES_TO_FOLLOW = 4
UNEVEN = 0.08  # a refresh may be so much longer or shorter than what was seen of others
JUMP = 3.0  # a step that stands for so many times the highest power of all others is none of energy


class CounterEnergy(NamedTuple):
    """What a counter says of a window."""

    energy_j: float
    edges_j: float  # half-width: when the counter was renewed, another time in another direction
    lasting_j: float  # half-width: what may be off in the same direction each time
    fault: str  # why it cannot be right, whatever power says


class _Edge(NamedTuple):
    value_j: float
    moment_j: float
    shape_j: float
    slot: int


class CounterCurve:
    """The energy counter of a channel between any two moments.

    `times_s` in seconds, `energy_j` in joules, `nan` where it could not be read. Between two refreshes a straight line
    is drawn; how far off that may be is told by the power there.
    """

    def __init__(
        self, times_s: Sequence[float], energy_j: Sequence[float], info: ChannelInfo, power: PowerCurve
    ) -> None:
        self._info, self._power = info, power
        self._faults: list[tuple[float, str]] = []
        if not math.isfinite(sum(energy_j)):
            self._faults = [
                (time_s, "could not be read") for time_s, value in zip(times_s, energy_j) if not math.isfinite(value)
            ]
            read = [(time_s, value) for time_s, value in zip(times_s, energy_j) if math.isfinite(value)]
            times_s, energy_j = [time_s for time_s, _ in read], [value for _, value in read]
        self.readings = len(times_s)
        self._read_s = (times_s[0], times_s[-1]) if times_s else (math.nan, math.nan)
        changed = [index for index, differs in enumerate(map(ne, energy_j[1:], energy_j), 1) if differs]
        before_s, after_s = [times_s[index - 1] for index in changed], [times_s[index] for index in changed]
        values_j = [energy_j[index] for index in changed]
        self._faults += [(times_s[index], "fell") for index in changed if energy_j[index] < energy_j[index - 1]]
        refresh = self._find_refresh(times_s, changed, values_j)
        self.refresh_s = refresh.longest_s
        if not self.readings:
            return
        # Of the first value it is not known when it was renewed.
        before_s, latest_s = [-math.inf, *before_s], [times_s[0], *after_s]
        self._values_j = [energy_j[0], *values_j]
        earliest_s = [max(before, latest - self.refresh_s) for before, latest in zip(before_s, latest_s)]
        if refresh.shortest_s:
            if refresh.is_even:
                earliest_s, latest_s = _narrowed(earliest_s, latest_s, refresh)
            self._moments_s = [(earliest + latest) / 2 for earliest, latest in zip(earliest_s, latest_s)]
            self._unsure_s = [(latest - earliest) / 2 for earliest, latest in zip(earliest_s, latest_s)]
        else:
            # No reading has shown an old value: the refresh is short, and both edges are late by some of it.
            self._moments_s = latest_s
            self._unsure_s = [DIFFERENCE_SHARE / 2 * (latest - early) for early, latest in zip(earliest_s, latest_s)]
        steps_w = [watts for watts in map(self._step_w, range(len(self._moments_s))) if watts is not None]
        self._faults = sorted(self._faults + self._jumps(sorted(steps_w)))
        self._fault_times_s = [time_s for time_s, _ in self._faults]
        self._least_w, self._peak_w = min(steps_w, default=math.nan), max(steps_w, default=math.nan)

    def _find_refresh(self, times_s: Sequence[float], changed: Sequence[int], values_j: Sequence[float]) -> Refresh:
        documented_s = self._info.counter_refresh_s or math.inf
        if len(changed) < 2:
            return Refresh(min(documented_s, times_s[-1] - times_s[0] if times_s else 0.0), 0.0)
        least_j = STEPS_TO_TELL_A_VALUE * self._info.counter_resolution_j
        found = find_refresh(times_s, changed, [step_j > least_j for step_j in map(sub, values_j[1:], values_j)])
        return found if found.shortest_s else found._replace(longest_s=min(found.longest_s, documented_s))

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
            if self._values_j[slot + 1] - self._values_j[slot] > usual_w * most_s:
                found.append((self._moments_s[slot + 1], "jumped"))
        return found

    def between(self, start_s: float, end_s: float) -> CounterEnergy:
        """The energy of a window in joules; `nan` where the counter was never read."""
        if not self.readings:
            return CounterEnergy(math.nan, 0.0, 0.0, "could not be read")
        if len(self._values_j) == 1:
            return CounterEnergy(0.0, 0.0, 0.0, "stood still")
        reach_s = self._reach_s
        if start_s < self._read_s[0] - reach_s or end_s > self._read_s[1] + reach_s:
            return CounterEnergy(math.nan, 0.0, 0.0, "was not read in all of that time")
        start, end = self._edge(start_s), self._edge(end_s)
        moments_s = self._moments_s
        first_s = min(start_s, moments_s[max(0, start.slot)])
        last_s = max(end_s, moments_s[min(end.slot + 1, len(moments_s) - 1)])
        faults = self._faults[bisect_left(self._fault_times_s, first_s) : bisect_right(self._fault_times_s, last_s)]
        return CounterEnergy(
            energy_j=end.value_j - start.value_j,
            edges_j=start.moment_j + end.moment_j,
            lasting_j=start.shape_j + end.shape_j + self._info.counter_resolution_j,
            fault=faults[0][1] if faults else "",
        )

    @property
    def _reach_s(self) -> float:
        """For how long it goes on as power does, before the first reading and after the last one."""
        return self.refresh_s + LONG_STEPS * self._power.usual_step_s

    def longest_sound(self, start_s: float, end_s: float) -> tuple[float, float]:
        """The longest part of a time in which the counter neither fell nor was unreadable."""
        edges_s = [start_s, *self._fault_times_s, end_s]
        # A fault's own moment belongs to no part.
        return max(
            ((before + 1e-9, after - 1e-9) for before, after in zip(edges_s, edges_s[1:])),
            key=lambda part: part[1] - part[0],
        )

    def _edge(self, time_s: float) -> _Edge:
        moments_s = self._moments_s
        slot = bisect_right(moments_s, time_s) - 1
        if slot < 0 or slot == len(moments_s) - 1:
            return self._beyond(time_s, max(slot, 0), slot)
        slot_s = moments_s[slot + 1] - moments_s[slot]
        step_j = self._values_j[slot + 1] - self._values_j[slot]
        share = (time_s - moments_s[slot]) / slot_s
        average_w = step_j / slot_s
        lowest_w, highest_w = self._levels_w(slot, average_w)
        # Of all ways from here to there between these powers, a straight line is off by no more than this.
        rest = 1 - share
        above_w = min(highest_w * share, average_w - lowest_w * rest) - average_w * share
        below_w = average_w * share - max(lowest_w * share, average_w - highest_w * rest)
        shape_j = slot_s * max(above_w, below_w)
        late_s = rest * self._unsure_s[slot] + share * self._unsure_s[slot + 1]
        value_j = self._values_j[slot] + share * step_j
        if shape_j:
            value_j, shape_j = self._followed(slot, time_s, share, value_j, shape_j)
        return _Edge(value_j, abs(average_w) * late_s, shape_j, slot)

    def _levels_w(self, slot: int, average_w: float) -> tuple[float, float]:
        """Between which powers it has been from one refresh to the next, in watts."""
        power = self._power
        if power.lags:
            lowest_w, highest_w = self._range_of_steps_w(slot)
            # A step is a mean itself, and hides as much as its own height of what was inside of it.
            hidden_w, alike = average_w / 2, 0.0
        else:
            lowest_w, highest_w = power.range_between_w(*self._moments_s[slot : slot + 2])
            if power.may_be_old:
                least_w, most_w = self._range_of_steps_w(slot)
                lowest_w, highest_w = min(lowest_w, least_w), max(highest_w, most_w)
            hidden_w, alike = 0.0, ALIKE
        # A step that stands out among what was seen may hold less of something that is further off still.
        if average_w > (1 + alike) * highest_w or (power.lags and average_w >= highest_w):
            highest_w = max(power.peak_w, self._peak_w)
        if average_w < (1 - alike) * lowest_w or (power.lags and average_w <= lowest_w):
            lowest_w = min(power.least_w, self._least_w)
        return max(0.0, min(lowest_w, average_w) - hidden_w), max(highest_w, average_w) + hidden_w

    def _range_of_steps_w(self, slot: int) -> tuple[float, float]:
        """Lowest and highest average from one refresh to the next, here and around."""
        around = range(slot - NEIGHBOURS, slot + 1 + NEIGHBOURS)
        steps_w = [watts for watts in map(self._step_w, around) if watts is not None]
        return min(steps_w, default=math.inf), max(steps_w, default=-math.inf)

    def _step_w(self, slot: int) -> float | None:
        """Average power from one refresh to the next, in watts; None where there is none."""
        if not 0 <= slot < len(self._moments_s) - 1:
            return None
        slot_s = self._moments_s[slot + 1] - self._moments_s[slot]
        step_j = self._values_j[slot + 1] - self._values_j[slot]
        return step_j / slot_s if slot_s > 0 and step_j >= 0 else None

    def _followed(self, slot: int, time_s: float, share: float, value_j: float, shape_j: float) -> tuple[float, float]:
        """Follow the samples of power through a long slot, where that is surer than a straight line."""
        start_s, end_s = self._moments_s[slot : slot + 2]
        power = self._power
        if power.lags or power.may_be_old or not power.covers(start_s, end_s):
            return value_j, shape_j
        inside = power.between(start_s, end_s)
        if inside is None or inside.samples < MIN_SAMPLES_TO_FOLLOW or inside.sampling_j / 2 >= shape_j:
            return value_j, shape_j
        since_j = power.energy_until_j(time_s) - power.energy_until_j(start_s)
        step_j = self._values_j[slot + 1] - self._values_j[slot]
        return self._values_j[slot] + since_j + share * (step_j - inside.energy_j), inside.sampling_j / 2

    def _beyond(self, time_s: float, knot: int, slot: int) -> _Edge:
        """Before the first refresh that was seen, or after the last one: as power goes on, for no longer than one."""
        moment_s = self._moments_s[knot]
        away_s = max(-self._reach_s, min(self._reach_s, time_s - moment_s))
        lowest_w, highest_w = self._power.range_between_w(min(moment_s, time_s), max(moment_s, time_s))
        middle_w = self._power.average_w(*sorted((moment_s, moment_s + away_s)))
        return _Edge(
            self._values_j[knot] + away_s * middle_w,
            abs(middle_w) * self._unsure_s[knot],
            abs(away_s) * (highest_w - lowest_w) / 2,
            slot,
        )


def _narrowed(earliest_s: list[float], latest_s: list[float], refresh: Refresh) -> tuple[list[float], list[float]]:
    """When each refresh was, from what is known of its neighbours: so many times the refresh before and after.

    What contradicts itself has no even pace, and is left as it was seen.
    """
    early_s, late_s = list(earliest_s), list(latest_s)
    least_s, most_s = (1 - UNEVEN) * refresh.shortest_s, (1 + UNEVEN) * refresh.longest_s
    last = len(early_s) - 1
    for before in (*range(last), *reversed(range(last))):
        after = before + 1
        least = math.ceil((early_s[after] - late_s[before]) / most_s - 1e-9)
        times = math.floor((late_s[after] - early_s[before]) / least_s + 1e-9)
        if times < 1 or max(1, least) != times:
            continue
        shortest_s, longest_s = times * least_s, times * most_s
        early_s[after] = max(early_s[after], early_s[before] + shortest_s)
        late_s[after] = min(late_s[after], late_s[before] + longest_s)
        early_s[before] = max(early_s[before], early_s[after] - longest_s)
        late_s[before] = min(late_s[before], late_s[after] - shortest_s)
    if any(early > late for early, late in zip(early_s, late_s)):
        return earliest_s, latest_s
    return early_s, late_s
