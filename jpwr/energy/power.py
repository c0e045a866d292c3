"""Energy under samples of power: the integral, and its uncertainty; and samples that show no power, as they are old.

The model: a reading is the power of a moment of its call, or what the channel documents (`averaging_s`, `held_s`,
`seen_share`), and the moments are random. Then the trapezoidal integral is unbiased for any load.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from heapq import merge
from itertools import chain, compress, count, groupby, islice, repeat, tee
from operator import add, mul, ne, not_, sub
from typing import Iterator, NamedTuple

from jpwr.channel import ChannelInfo
from jpwr.energy.estimate import EnergyEstimate
from jpwr.intervals import (
    ASSUMED_ACCURACY,
    LEVEL,
    SAMPLES_FOR_A_PEAK,
    SAMPLES_FOR_A_RANGE,
    Numbers,
    missed_share,
    students_t,
)
from jpwr.stored import between, kept_as, searches

# One sample at a random moment of each interval is one from each stratum, and the variance follows from differences of
# neighbours (collapsed strata: Cochran, Sampling Techniques, 3rd ed., 5A.12; Wolter, Introduction to Variance
# Estimation, ch. 8). A sample's weight is half the time between its neighbours, with a mean square of 25/24 intervals
# squared; the product of a difference and its step has a mean square of 2 x 7/6 variances times intervals squared.
VARIANCE_OF_SQUARES = (25 / 24) / (2 * 7 / 6)
# A straight line across a step of power at an edge is off by change x step x (1 - x)^2 / 2, with x uniform on [0, 1].
EDGE_SHARE = 1 / 6
GAP_STEPS = 2.5  # the sampler never leaves more than two intervals between samples unless one is missing
SELDOM = 0.01  # share of readings that repeat the one before, up to which a sensor is fine enough to show a freeze
ROUNDING = 1e-9  # of sums of a million numbers of 53 bits
BLOCK = 128  # steps between two running sums: the fewer are kept, the longer takes a window; no result depends on it


class Sums(NamedTuple):
    """Sums over the steps between samples; the last three are of power's change x step."""

    longest_s: float = 0.0  # longest step
    twice_j: float = 0.0  # twice the energy
    squares: float = 0.0
    fourths: float = 0.0
    swings_j: float = 0.0  # absolute values


class PowerCurve:
    """Straight lines between samples of power at `times_s` ± `half_s`, in ascending order, nan where one failed."""

    def __init__(
        self, times_s: Numbers, power_w: Numbers, info: ChannelInfo, random_phase: bool, half_s: Numbers = ()
    ) -> None:
        self.info, self.random_phase = info, random_phase
        self._left, self._right = searches(times_s)
        self.missing_s = kept_as(times_s, ())
        if not math.isfinite(sum(power_w)):
            self.missing_s = kept_as(times_s, compress(times_s, map(not_, map(math.isfinite, power_w))))
            columns = (times_s, power_w, half_s)
            times_s, power_w, half_s = (kept_as(one, compress(one, map(math.isfinite, power_w))) for one in columns)
        self.times_s, self.power_w, self._half_s, self._last = times_s, power_w, half_s, max(0, len(times_s) - 1)
        self.lowest_w, self.peak_w = min(power_w, default=math.nan), max(power_w, default=math.nan)
        # Readings of an H200 reach 829 W at a limit of 700 W: the limit alone does not bound the power of a moment.
        self.highest_w = max(info.limit_w, self.peak_w)  # highest known power, in watts
        self.most_w = self.highest_w if info.limit_w else math.inf  # upper bound on power, in watts
        self.reads = max(1.0, info.held_s / (usual_step_s(times_s) or math.inf))  # of one refresh: they are one sample
        self.samples = math.ceil(len(times_s) / self.reads)
        # In long steps, and in those with a failed reading, power is unseen: high power itself may be the cause.
        most_s = GAP_STEPS * usual_step_s(times_s)
        long = compress(count(), map(most_s.__lt__, map(sub, islice(times_s, 1, None), times_s)))
        failed = (self._right(times_s, time_s) - 1 for time_s in self.missing_s)
        gaps = (index for index, _ in groupby(merge(long, failed)))
        self._gaps = array("I", (index for index in gaps if 0 <= index < self._last))
        self._longest_s, self._sums = array("d"), [array("d", [0.0]) for _ in range(4)]
        for low in range(0, self._last, BLOCK):
            longest_s, *block = self._sums_of(low, min(low + BLOCK, self._last))
            self._longest_s.append(longest_s)
            for running, one in zip(self._sums, block):
                running.append(running[-1] + one)
        self._recent = (0, 0), Sums()
        self._all = self._over(0, self._last)

    def _gaps_in(self, low: int, high: int) -> array[int]:
        """Return the indices of the steps from `low` to below `high` in which power is unseen."""
        return self._gaps[bisect_left(self._gaps, low) : bisect_left(self._gaps, high)]

    def _sums_of(self, low: int, high: int) -> Sums:
        if low >= high:
            return Sums()
        times_s, power_w = self.times_s[low : high + 1], self.power_w[low : high + 1]
        later_w, steps_s = power_w[1:], list(map(sub, times_s[1:], times_s))
        longest_s, twice_j = max(steps_s), math.fsum(map(mul, steps_s, map(add, later_w, power_w)))
        if self.info.held_s:  # repeats of a held value are one sample
            steps_s = list(map(max, steps_s, repeat(self.info.held_s)))
        for index in self._gaps_in(low, high):
            steps_s[index - low] = 0.0
        swings_j = list(map(mul, steps_s, map(sub, later_w, power_w)))
        squares = list(map(mul, swings_j, swings_j))
        total_j = 0.0 if self.random_phase else sum(map(abs, swings_j))
        return Sums(longest_s, twice_j, sum(squares), sum(map(mul, squares, squares)), total_j)

    def _over(self, low: int, high: int) -> Sums:
        """Return the sums over the steps from index `low` to below `high`, by running sums from block to block."""
        first, last = -(-low // BLOCK), high // BLOCK
        if self._recent[0] != (low, high):
            sums = self._sums_of(low, high if first >= last else first * BLOCK)
            if first < last:
                tail = self._sums_of(last * BLOCK, high)
                longest_s = max(sums.longest_s, tail.longest_s, *self._longest_s[first:last])
                parts = zip(sums[1:], tail[1:], self._sums)
                sums = Sums(longest_s, *(head + end + one[last] - one[first] for head, end, one in parts))
            self._recent = (low, high), sums
        return self._recent[1]

    def _beyond_w(self, middle_w: float) -> float:
        """Return the largest difference in watts between a power and that of time without readings."""
        return max(self.highest_w - middle_w, middle_w - min(0.0, self.lowest_w))

    def range_w(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Return the lowest and highest power between two moments in watts, from the 93 nearest samples or more.

        If these do not cover every moment, the range is from 0 to the limit, or to infinity without one.
        """
        times_s, info = self.times_s, self.info
        first, last = self._right(times_s, start_s), self._left(times_s, end_s + info.held_s)
        is_covered = self.samples >= SAMPLES_FOR_A_RANGE and times_s[0] <= start_s and end_s <= times_s[-1]
        is_of_a_moment = info.seen_share == 1 and not info.averaging_s and not info.from_counter
        if not is_covered or not is_of_a_moment or self._gaps_in(first - 1, last):
            return 0.0, self.most_w
        more = max(0, math.ceil(SAMPLES_FOR_A_RANGE * self.reads) - (last - first)) // 2 + 1
        low, high = max(0, first - more), min(last + more, len(times_s))
        lowest_w, highest_w = (edge(between(self.power_w, low, high)) for edge in (min, max))
        return max(0.0, lowest_w), highest_w

    def until_j(self, time_s: float) -> float:
        """Return the energy from the first sample to a moment, in joules."""
        index = self._step(time_s)
        return self._over(0, index).twice_j / 2 + self._part_j(index, time_s)

    def _part_j(self, index: int, time_s: float) -> float:
        """Return the energy from a sample to a moment near it in joules, below 0 if the moment is before it."""
        return (time_s - self.times_s[index]) * (self.power_w[index] + self.at_w(time_s)) / 2

    def at_w(self, time_s: float) -> float:
        """Return the power at a moment by linear interpolation, in watts."""
        index = self._step(time_s)
        (from_s, to_s), (from_w, to_w) = self.times_s[index : index + 2], self.power_w[index : index + 2]
        share = (time_s - from_s) / (to_s - from_s) if to_s > from_s else 0.0
        return from_w + min(1.0, max(0.0, share)) * (to_w - from_w)

    def _step(self, time_s: float) -> int:
        return max(0, min(self._right(self.times_s, time_s), self._last) - 1)

    def between(self, start_s: float, end_s: float) -> EnergyEstimate:
        """Integrate over a window; the energy is unknown unless two samples cover a part of it."""
        times_s, info, duration_s = self.times_s, self.info, end_s - start_s
        missing = self._right(self.missing_s, end_s) - self._left(self.missing_s, start_s)
        first_s, last_s = (max(start_s, times_s[0]), min(end_s, times_s[-1])) if times_s else (0.0, 0.0)
        covered_s = last_s - first_s
        if not covered_s > 0:
            why = "has fewer than two readings of power in the window"
            return EnergyEstimate(unknown=why, duration_s=duration_s, missing=missing, largest_gap_s=duration_s)
        begin, end = self._left(times_s, start_s), self._right(times_s, end_s)
        edges_s = (times_s[begin] - start_s, end_s - times_s[end - 1]) if begin < end else (duration_s,)
        gap_s = max(*edges_s, self._over(begin, max(begin, end - 1)).longest_s)
        low, high = self._step(start_s), min(self._left(self.times_s, end_s), self._last)
        sums = self._over(low, high)
        average_w = (sums.twice_j / 2 - self._part_j(low, first_s) + self._part_j(high, last_s)) / covered_s
        beyond_w = self._beyond_w(average_w)
        independent = covered_s / max(info.held_s, covered_s / max(1, end - begin))
        spread_w = self.highest_w - self.lowest_w if self.samples >= SAMPLES_FOR_A_PEAK else beyond_w
        missed_j = missed_share(independent) * covered_s * spread_w
        random_j = max(self.sampled_j(start_s, end_s, LEVEL), missed_j)
        systematic_j = (
            (ROUNDING * self.highest_w + info.resolution_w / 2) * duration_s
            + self._edge_j(low)
            + self._edge_j(high - 1)  # both edges may be in one step
            + self._lag_j(first_s, last_s, average_w)
            + self._unseen_j(first_s, last_s)
            + beyond_w * (duration_s - covered_s + (1 - info.seen_share) * covered_s)
        )
        if not self.random_phase:  # samples in step with the load err in one direction
            random_j, systematic_j = 0.0, systematic_j + max(missed_j, sums.swings_j / 2)
        if info.limit_w:
            most_j = beyond_w * duration_s
            systematic_j = min(systematic_j, most_j)
            random_j = min(random_j, most_j - systematic_j)
        both_j = average_w * duration_s, random_j + systematic_j, systematic_j
        return EnergyEstimate(*both_j, "integral", "", "", duration_s, covered_s, end - begin, missing, gap_s, *both_j)

    def sampled_j(self, start_s: float, end_s: float, level: float) -> float:
        """Return the half-width of sampling at a confidence level in joules, by degrees of freedom (GUM, G.4.1).

        It is at least this window's share of the trace's: a short window may by chance have sampled little change.
        """
        low, high = self._step(start_s), min(self._left(self.times_s, end_s), self._last)
        sums, share = self._over(low, high), (high - low) / self._last
        square, fourth = sums.squares, sums.fourths
        if square < self._all.squares * share:
            square, fourth = self._all.squares * share, self._all.fourths * share**2
        freedom = square**2 / fourth if fourth else math.inf
        return students_t(level, freedom) * math.sqrt(VARIANCE_OF_SQUARES * square) if square else 0.0

    def _edge_j(self, index: int) -> float:
        near_w = self.power_w[max(0, index - 1) : index + 3]
        step_s = max(self.times_s[index + 1] - self.times_s[index], self.info.held_s)
        return (max(near_w) - min(near_w)) * (EDGE_SHARE * step_s + self._half_near_s(index))

    def _half_near_s(self, index: int) -> float:
        return max(self._half_s[max(0, index - 1) : index + 3], default=0.0)

    def _lag_j(self, start_s: float, end_s: float, average_w: float) -> float:
        """Return a bound in joules, for both edges, on the error from readings of other times than theirs.

        Readings that are means over T include some energy of the T before the window, weighted from 0 to 1, and lack as
        much at its end: T / 2 of the mean, and up to T / 8 of the range of power in that T, of which means show a part.
        """
        averaging_s, held_s = self.info.averaging_s, self.info.held_s
        start_w, end_w = self.at_w(start_s), self.at_w(end_s)
        half_s = max(self._half_near_s(self._step(start_s)), self._half_near_s(self._step(end_s)))
        edges = (self.near_w(edge_s - averaging_s - held_s, edge_s) for edge_s in (start_s, end_s))
        hidden_w = sum(high_w - low_w for low_w, high_w in edges)
        if end_s - start_s < 2 * averaging_s:  # means hide what is used in so short a window: all, or nothing
            means_w = (max(edge_w, average_w) for edge_w in (start_w, end_w))
            hidden_w = max(hidden_w, sum(mean_w * (1 - mean_w / self.most_w) for mean_w in means_w))
        return ((averaging_s + held_s) / 2 + half_s) * abs(end_w - start_w) + averaging_s * hidden_w

    def near_w(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Return the lowest and highest reading between two moments, with those next to them, in watts."""
        near_w = self.power_w[self._step(start_s) : self._step(end_s) + 2]
        return min(near_w), max(near_w)

    def _unseen_j(self, start_s: float, end_s: float) -> float:
        """Return a bound on the error in joules from the gaps between two moments."""
        unseen_j = 0.0
        for index in self._gaps_in(self._step(start_s), self._step(end_s) + 1):
            from_s, to_s = max(start_s, self.times_s[index]), min(end_s, self.times_s[index + 1])
            unseen_j += (to_s - from_s) * self._beyond_w((self.power_w[index] + self.power_w[index + 1]) / 2)
        return unseen_j


def usual_step_s(times_s: Numbers) -> float:
    """Return the median time between samples in seconds, of those that are evenly taken from a long trace."""
    some = range(0, len(times_s) - 1, 1 + len(times_s) // BLOCK**2)
    steps_s = sorted(times_s[index + 1] - times_s[index] for index in some)
    return steps_s[len(steps_s) // 2] if steps_s else 0.0


def frozen_runs(
    info: ChannelInfo, times_s: Numbers, power_w: Numbers, counter_times_s: Numbers, counter_j: Numbers
) -> list[tuple[int, int]]:
    """Return the indices of the first and last reading of each run of equal powers in which the sensor was frozen.

    The run is longer than the sensor's own times, and its counter stood still from the same reading to the same one.
    Or 59 or more other readings of that level seldom repeat, and the next one differs by more than the sensor's step.
    """
    usual_s = info.held_s + info.averaging_s + info.counter_refresh_s + GAP_STEPS * usual_step_s(times_s)
    is_counted, frozen = info.counter_refresh_s > 0 and not info.from_counter, []
    runs = [] if info.estimated else [*_repeats(power_w)]  # a model of power repeats its limits
    repeats: Counter[float] = Counter()
    for first, last in runs:
        repeats[power_w[first]] += last - first
    for first, last in runs:
        start_s, end_s, watts = times_s[first], times_s[last], power_w[first]
        if end_s - start_s <= 3 * usual_s:
            continue
        must_count = is_counted and watts * (end_s - start_s - usual_s) > info.counter_resolution_j
        if must_count and _stood_still(counter_times_s, counter_j, start_s, end_s, usual_s):
            frozen.append((first, last))
        elif first > 0 and last + 1 < len(power_w) and abs(power_w[last + 1] - watts) > info.resolution_w:
            others = sum(many for level_w, many in repeats.items() if abs(level_w - watts) <= ASSUMED_ACCURACY * watts)
            if others - (last - first) <= SELDOM * len(power_w) and _seldom_repeats(power_w, watts, last - first):
                frozen.append((first, last))
    return frozen


def _repeats(power_w: Numbers) -> Iterator[tuple[int, int]]:
    """Yield the indices of the first and last reading of each run of more than GAP_STEPS equal powers."""
    changes = compress(count(1), map(ne, islice(power_w, 1, None), power_w))
    firsts, ends = tee(chain([0], changes, [len(power_w)]))
    for first, end in zip(firsts, islice(ends, 1, None)):
        if end - first > GAP_STEPS:
            yield first, end - 1


def _stood_still(times_s: Numbers, counter_j: Numbers, start_s: float, end_s: float, edge_s: float) -> bool:
    """Whether a counter stood still from one moment to another, both to within `edge_s`, but not before or after."""
    bisect_left, bisect_right = searches(times_s)
    first, last = bisect_left(times_s, start_s + edge_s), bisect_right(times_s, end_s - edge_s)
    before, after = bisect_left(times_s, start_s - edge_s), bisect_right(times_s, end_s + edge_s)
    around = [*counter_j[max(0, before - 1) : before], *counter_j[after : after + 1]]
    if first >= last or not around or counter_j[first] in around:
        return False
    return all(map(counter_j[first].__eq__, between(counter_j, first + 1, last)))


def _seldom_repeats(power_w: Numbers, watts: float, repeats: int) -> bool:
    """Whether 59 or more pairs of readings in a row of one level, those of a run left out, seldom are equal."""
    far_w, pairs = ASSUMED_ACCURACY * watts, zip(power_w, islice(power_w, 1, None))
    equal = [one == other for one, other in pairs if max(abs(one - watts), abs(other - watts)) <= far_w]
    others = len(equal) - repeats
    return others >= SAMPLES_FOR_A_PEAK and sum(equal) - repeats <= SELDOM * others
