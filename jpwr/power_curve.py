"""Energy from samples of power, and how sure it is.

Pure arithmetic: no clock, no files, no vendor library.
"""

from __future__ import annotations

import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from functools import reduce
from itertools import accumulate
from operator import add, mul, sub
from typing import NamedTuple, Sequence

from jpwr.refresh import LOAD_LEVELS, find_held_s

# Intervals hold the truth in at least 95 of 100 windows: so many standard deviations, which are themselves estimated.
DEVIATIONS = 2.2
# Variance of a step's error as a share of (change of power x step)^2, with samples at random moments. A load that
# changes faster than it is sampled makes samples independent: their differences have twice the variance of power,
# spread over gaps of which the mean square is 7/6. One that changes rarely has its change anywhere in a step: 1/12.
FAST_SHARE = 25 / 24 / (2 * 7 / 6)
SLOW_SHARE = 1 / 12
MIN_STEPS_TO_TELL = 20  # with fewer, no load is taken for a slow one
MISSED_STEPS = 2.5  # in a step of this many usual ones, a reading is missing, as it takes two at random moments at most
LONG_STEPS = 4.0  # a step of this many usual ones is a gap: readings are missing, or the sampler was stopped
# A mean over some time tells nothing of its inside. At the worst, power stands at either end of its swing for half of
# that time each, and an edge is off by an eighth of swing x time: both in one direction where windows keep step.
HIDDEN_IN_A_MEAN = 1 / 4
# As it moves, a mean gains what power is now and loses what it was: how fast it does is told over so much of its time.
# Where the mean itself goes through less than such a share of that, the load nearly keeps step with it, and power may
# swing by so much more.
MOVES_SHARE, IN_STEP, HIDDEN_SWING = 1 / 8, 1 / 2, 8 / 3
UNSEEN_SWING = 1.6  # of average power: between idle and full power of a GPU, where the mean tells nothing of it
EDGE_SHARE = 1 / 4  # of change of power x step at an edge
NEAR = 6  # so many samples before and after an edge tell between which powers it is
FEW_STEPS = 5  # an interval from few steps is widened by their number's share in this
# All samples may be of one power, and a part of the time of another. Of so few in a window that is told by them, of
# more by all of the trace; where these are few, too, that power may be one that no sample has seen.
FEW_SAMPLES, MANY_SAMPLES = 11, 50
MISSED_BY_ALL = 0.05  # how likely that is of the part that is allowed for
UNSEEN_SPREAD = 6.0  # times the lowest sample power may have been, where few tell and no limit is known
ROUNDING = 1e-9  # of sums of many numbers
LAG_SHARE = 0.75  # of the time for which a value is held: its own age, and the age that it had when it was new


class PowerEnergy(NamedTuple):
    """What the samples of power say of a window."""

    energy_j: float
    sampling_j: float  # half-width: what power did between the samples, another time in another direction
    unseen_j: float  # the same with what all samples may have missed, which no counter is held against
    lasting_j: float  # half-width: what may be off in the same direction each time
    covered_s: float  # of the window, time between finite samples
    samples: int
    missing: int
    largest_gap_s: float


class PowerCurve:
    """Energy under samples of power, by the trapezoidal rule: straight lines between finite samples.

    `times_s` in seconds, `power_w` in watts; what is not finite is a missing sample, across which its neighbours are
    joined. `averaging_s` is the time over which a reading is a mean, `held_s` for how long the sensor may show the same
    one; that is also looked for. `limit_w` is the most power that there can be, 0 where that is not known. With
    `random_phase`, samples were taken at random within their intervals, so that what is missed in between adds up as
    independent errors do; without, every change may have been missed in the same direction.
    """

    def __init__(
        self,
        times_s: Sequence[float],
        power_w: Sequence[float],
        random_phase: bool = True,
        averaging_s: float = 0.0,
        held_s: float = 0.0,
        limit_w: float = 0.0,
    ) -> None:
        self.missing_s: list[float] = []
        if not math.isfinite(sum(power_w)):
            self.missing_s = [time_s for time_s, watts in zip(times_s, power_w) if not math.isfinite(watts)]
            read = [(time_s, watts) for time_s, watts in zip(times_s, power_w) if math.isfinite(watts)]
            times_s, power_w = [time_s for time_s, _ in read], [watts for _, watts in read]
        self.times_s, self.power_w = times_s, power_w
        self.peak_w = max(power_w, default=math.nan)
        self.least_w = min(power_w, default=math.nan)
        self.range_w = self.peak_w - self.least_w
        self.random_phase = random_phase
        self._averaging_s, self._documented_s, self._limit_w = averaging_s, held_s, limit_w
        self._moves_w = _moves_w(times_s, power_w, averaging_s) if averaging_s else 0.0
        steps_s = array("d", map(sub, times_s[1:], times_s))
        changes_w = list(map(sub, power_w[1:], power_w))
        self._steps_s = steps_s
        self.usual_step_s = sorted(steps_s)[len(steps_s) // 2] if steps_s else 0.0
        self.held_s = find_held_s(times_s, power_w, self.usual_step_s)
        self.values = min(len(times_s), self._values_between(0, -1)) if times_s else 0  # of the sensor, at most
        self.is_of_few = self.values < MANY_SAMPLES
        self._possible_w = max(abs(self.peak_w), abs(self.least_w), limit_w)
        if self.is_of_few and not limit_w:
            self._possible_w = max(self._possible_w, UNSEEN_SPREAD * self.least_w)
        self._step_w = _step_w(power_w)
        self._late_s = averaging_s / 2 + LAG_SHARE * max(held_s, self.held_s)
        self._twice_j = array("d", accumulate(map(mul, steps_s, map(add, power_w[1:], power_w)), initial=0.0))
        unseen_s = [max(step_s, self.held_s) for step_s in steps_s] if self.held_s else steps_s
        swings_j = list(map(mul, changes_w, unseen_s))
        squares = list(map(mul, swings_j, swings_j))
        self._gaps_s: list[tuple[float, float]] = []  # in which more than a reading or two are missing
        self._missed_j = self._fill_gaps(changes_w, squares)
        self._squares = array("d", accumulate(squares, initial=0.0))
        self._fourths = array("d", accumulate(map(mul, squares, squares), initial=0.0))
        self._swings_j = array("d", accumulate(map(abs, swings_j), initial=0.0))
        self._near = array("d", accumulate(map(mul, changes_w, changes_w), initial=0.0))
        far_w = list(map(sub, power_w[2:], power_w))
        self._far = array("d", accumulate(map(mul, far_w, far_w), initial=0.0))

    def _fill_gaps(self, changes_w: Sequence[float], squares: list[float]) -> Sequence[float]:
        """Where readings are missing, power may have been anywhere in the range that the channel has shown, or up to
        its limit; and in the same direction each time, as power itself may be what keeps them from being taken. What
        that makes until each sample, in joules; nothing where none is missing.
        """
        usual_s = self.usual_step_s
        gaps = {index for index, step_s in enumerate(self._steps_s) if step_s > MISSED_STEPS * usual_s}
        failed = {bisect_right(self.times_s, time_s) - 1 for time_s in self.missing_s} & set(range(len(squares)))
        if not gaps and not failed:
            return ()
        missed_j = [0.0] * len(squares)
        for index in sorted(gaps | failed):
            step_s, watts = self._steps_s[index], max(self.range_w, self._limit_w - self.least_w)
            seen_s = 0.0 if index in failed and step_s > MISSED_STEPS * usual_s else usual_s
            if step_s > LONG_STEPS * usual_s:
                # It may have been low, or idle, also where all that was seen is one power.
                watts = max(watts, self.peak_w / 2)
                self._gaps_s.append((self.times_s[index], self.times_s[index] + step_s))
                squares[index] = (changes_w[index] * usual_s) ** 2
            if index in failed:
                squares[index] = max(squares[index], (self.range_w * step_s) ** 2)
            missed_j[index] = watts * max(0.0, step_s - seen_s)
        return array("d", accumulate(missed_j, initial=0.0))

    def without_gaps(self, start_s: float, end_s: float) -> list[tuple[float, float]]:
        """The parts of a time in which no more than a reading is missing, in order."""
        parts = []
        for before_s, after_s in self._gaps_s:
            if after_s > start_s:
                parts.append((start_s, min(before_s, end_s)))
                start_s = after_s
        return [(first_s, last_s) for first_s, last_s in [*parts, (start_s, end_s)] if first_s < last_s]

    def has_gap(self, start_s: float, end_s: float) -> bool:
        """Whether more than a reading or two are missing in a time."""
        return self._gaps_s != [] and self.without_gaps(start_s, end_s) != [(start_s, end_s)]

    def missed_j(self, start_s: float, end_s: float) -> float:
        """How far the energy of a covered time may be off for readings that are missing, in joules."""
        return self._missed_until_j(end_s) - self._missed_until_j(start_s) if self._missed_j else 0.0

    def _missed_until_j(self, time_s: float) -> float:
        index = min(bisect_right(self.times_s, time_s), len(self.times_s) - 1) - 1
        before_j, after_j = self._missed_j[index : index + 2]
        step_s = self._steps_s[index]
        share = (time_s - self.times_s[index]) / step_s if step_s else 0.0
        return float(before_j + (after_j - before_j) * share)

    def energy_until_j(self, time_s: float) -> float:
        """Energy from the first sample to a moment between the first and the last one, in joules."""
        index = min(bisect_right(self.times_s, time_s), len(self.times_s) - 1) - 1
        since_s = time_s - self.times_s[index]
        middle_w = self.power_w[index]
        if since_s:
            middle_w += (self.power_w[index + 1] - middle_w) * since_s / self._steps_s[index] / 2
        return float(self._twice_j[index] / 2 + since_s * middle_w)

    @property
    def lags(self) -> bool:
        """Whether a reading tells of a time and not of its moment."""
        return self._averaging_s > 0 or self.held_s > 0

    @property
    def may_be_old(self) -> bool:
        """Whether a reading may be of an earlier moment than its own, by the sensor's documentation."""
        return self._documented_s > 0

    def covers(self, start_s: float, end_s: float) -> bool:
        """Whether there are samples at and beyond both moments."""
        return len(self.times_s) > 1 and self.times_s[0] <= start_s and end_s <= self.times_s[-1]

    def at_w(self, time_s: float) -> float:
        """Power at a moment in watts: on the line between two samples, or that of the nearest one."""
        times_s = self.times_s
        if len(times_s) < 2:
            return self.power_w[0] if times_s else 0.0
        index = min(max(bisect_right(times_s, time_s), 1), len(times_s) - 1) - 1
        share = min(1.0, max(0.0, (time_s - times_s[index]) / self._steps_s[index])) if self._steps_s[index] else 0.0
        return self.power_w[index] + share * (self.power_w[index + 1] - self.power_w[index])

    def range_between_w(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Lowest and highest sample between two moments and of the nearest before and after them, in watts; where
        readings are missing, of as long before and after as these are; where some failed, of the whole trace.
        """
        before, after = bisect_right(self.times_s, start_s), bisect_left(self.times_s, end_s + self._documented_s)
        if self._missed_j:
            gap_s = max(self._steps_s[max(0, before - 1) : after], default=0.0)
            if gap_s > MISSED_STEPS * self.usual_step_s:
                before = min(before, bisect_right(self.times_s, start_s - gap_s))
                after = max(after, bisect_left(self.times_s, end_s + gap_s))
        first, last = max(0, before - NEAR), min(after + NEAR, len(self.times_s)) - 1
        if self._missed_j and self._is_missing_between(first, last):
            return self.least_w, self.peak_w
        near = self.power_w[first : last + 1] or self.power_w[-2:]
        return min(near, default=0.0), max(near, default=0.0)

    def between(self, start_s: float, end_s: float) -> PowerEnergy | None:
        """The energy of a window, or None where it has no time between two finite samples."""
        times_s = self.times_s
        if len(times_s) < 2:
            return None
        first_s, last_s = max(start_s, times_s[0]), min(end_s, times_s[-1])
        covered_s = last_s - first_s
        if not covered_s > 0:
            return None
        duration_s = end_s - start_s
        seen_j = self.energy_until_j(last_s) - self.energy_until_j(first_s)
        begin, end = bisect_left(times_s, start_s), bisect_right(times_s, end_s)
        missing = bisect_right(self.missing_s, end_s) - bisect_left(self.missing_s, start_s)
        low, high = self._touched(first_s, last_s)
        average_w = seen_j / covered_s
        most_j = self._possible_w * covered_s
        lasting_j = self._edges_j(low, high, covered_s) + self.missed_j(first_s, last_s)
        # All of it together is no more than the highest power that there may have been x time.
        sampling_j, unseen_j = (min(max(0.0, most_j - lasting_j), one_j) for one_j in self._sampling_j(low, high))
        return PowerEnergy(
            energy_j=average_w * duration_s,
            sampling_j=sampling_j,
            unseen_j=unseen_j,
            lasting_j=lasting_j
            + self.lagging_j(self.at_w(first_s), self.at_w(last_s), average_w)
            + self._step_w * covered_s
            + ROUNDING * most_j
            + max(abs(average_w), self.range_w) * (duration_s - covered_s),
            covered_s=covered_s,
            samples=end - begin,
            missing=missing,
            largest_gap_s=self._largest_gap_s(start_s, end_s, begin, end),
        )

    def unseen(self, start_s: float, end_s: float) -> PowerEnergy:
        """Of a time without any reading beside it: that power was as elsewhere, in the range that was seen there."""
        duration_s = end_s - start_s
        average_w = self._twice_j[-1] / 2 / (self.times_s[-1] - self.times_s[0])
        lasting_j = max(average_w, self.range_w) * duration_s
        missing = bisect_right(self.missing_s, end_s) - bisect_left(self.missing_s, start_s)
        return PowerEnergy(average_w * duration_s, 0.0, 0.0, lasting_j, 0.0, 0, missing, duration_s)

    def _largest_gap_s(self, start_s: float, end_s: float, begin: int, end: int) -> float:
        if begin == end:
            return end_s - start_s
        edges_s = max(self.times_s[begin] - start_s, end_s - self.times_s[end - 1])
        return float(max(edges_s, max(self._steps_s[begin : end - 1], default=0.0)))

    def _touched(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The steps that a window touches: from the sample before it to the one after it."""
        return bisect_right(self.times_s, start_s) - 1, min(bisect_left(self.times_s, end_s), len(self.times_s) - 1)

    def deviation_j(self, start_s: float, end_s: float) -> float:
        """Standard deviation of what power did between the samples of a covered time, in joules, more where that is
        told by few changes.
        """
        low, high = self._touched(start_s, end_s)
        square, fourth = self._squares_of(low, high)
        return (1 + (fourth / square**2 if square else 0.0)) * math.sqrt(self._share(low, high) * square)

    def _squares_of(self, low: int, high: int) -> tuple[float, float]:
        """Sums of squares and fourth powers of what may have been missed."""
        times_s = self.times_s
        share = (times_s[high] - times_s[low]) / (times_s[-1] - times_s[0])
        square, fourth = self._squares[high] - self._squares[low], self._fourths[high] - self._fourths[low]
        # A window may by chance have seen less change than is usual in this trace.
        if square < self._squares[-1] * share:
            square, fourth = self._squares[-1] * share, self._fourths[-1] * share
        return square, fourth

    def _sampling_j(self, low: int, high: int) -> tuple[float, float]:
        # A value that is shown for a while is seen once.
        inside = min(high - low - 1, self._values_between(low, high))
        if inside < FEW_SAMPLES and not self.random_phase:
            return math.inf, math.inf
        square, fourth = self._squares_of(low, high)
        # What is rare shows late: how many changes there were, had they all been alike, tells how far chance goes.
        few = FEW_STEPS / (inside + 1) + (fourth / square**2 if square else 0.0)
        found_j = DEVIATIONS * (1 + few) * math.sqrt(self._share(low, high) * square)
        if not self.random_phase:
            found_j = max(found_j, (self._swings_j[high] - self._swings_j[low]) / 2)
        telling, hidden_w = self.values, max(self.range_w, self.peak_w / 2)
        if self.is_of_few:
            telling, hidden_w = inside, max(self.peak_w, self._possible_w - self.least_w)
        elif inside < FEW_SAMPLES:
            telling = inside
        part = 1 - MISSED_BY_ALL ** (1 / telling) if telling > 0 else 1.0
        unseen_j = max(found_j, part * hidden_w * (self.times_s[high] - self.times_s[low]))
        return unseen_j if inside < FEW_SAMPLES else found_j, unseen_j

    def _values_between(self, low: int, high: int) -> int:
        """How many values the sensor had from one sample to another, at most."""
        return int((self.times_s[high] - self.times_s[low]) / self.held_s) if self.held_s else sys.maxsize

    def _share(self, low: int, high: int) -> float:
        """How much of the squares counts, by whether power keeps its level from one sample to the next.

        Samples two steps apart differ as much as neighbours where all are independent, and twice as much where changes
        are rare.
        """
        near = self._near[high] - self._near[low]
        # Also one that is missing beside the window has joined two samples of which one lies within.
        missing = bisect_right(self.missing_s, self.times_s[high]) > bisect_left(self.missing_s, self.times_s[low])
        if missing or self.held_s or high - low < MIN_STEPS_TO_TELL or near == 0:
            return FAST_SHARE
        far = self._far[high - 1] - self._far[low]
        slow = min(1.0, max(0.0, (far / near - 1.2) / 0.6))
        return float(FAST_SHARE + slow * (SLOW_SHARE - FAST_SHARE))

    def _edges_j(self, low: int, high: int, covered_s: float) -> float:
        """How far a window's energy is off where it begins and ends with a change of power: what is between two samples
        is drawn as a line, so that an edge there is off by a sixth of change x step on average; each time, where
        windows keep step with the load.
        """
        steps_s = [max(self._steps_s[index], self.held_s) for index in (low, high - 1)]
        if covered_s < max(steps_s):  # most of such windows have no sample
            return covered_s * self.range_w
        changes_w = [self._change_near_w(index) for index in (low, high - 1)]
        return float(EDGE_SHARE * sum(map(mul, changes_w, steps_s)))

    def _change_near_w(self, index: int) -> float:
        """Between which powers it was in a step and the nearest before and after it."""
        first, last = max(0, index + 1 - NEAR), min(index + NEAR, len(self.times_s) - 1)
        if self._is_missing_between(first, last):
            return self.range_w
        near_w = self.power_w[first : last + 1]
        return max(near_w) - min(near_w)

    def _is_missing_between(self, first: int, last: int) -> bool:
        """Whether a reading failed between two samples."""
        return bisect_left(self.missing_s, self.times_s[first]) < bisect_left(self.missing_s, self.times_s[last])

    def lagging_j(self, start_w: float, end_w: float, average_w: float) -> float:
        """What a reading that lags behind leaves unsure of a window, in joules, from power at its ends and its average:
        the ends belong in part to its neighbours.
        """
        if not self._late_s:
            return 0.0
        hidden_w = self._hidden_w(abs(average_w), max(abs(start_w), abs(end_w), abs(average_w)))
        return self._late_s * abs(end_w - start_w) + self._averaging_s * hidden_w

    def _hidden_w(self, average_w: float, most_w: float) -> float:
        """How far the mean power in a mean's time, weighted by how much of it is not told yet, may differ at two edges
        where the mean itself is the same.
        """
        swing_w = max(UNSEEN_SWING * average_w, self.range_w, self._moves_w)
        if self.range_w < IN_STEP * self._moves_w:
            swing_w = max(swing_w, min(HIDDEN_SWING * self._moves_w, 2 * most_w))
        if swing_w <= 2 * most_w:
            return HIDDEN_IN_A_MEAN * swing_w
        return most_w * (1 - most_w / swing_w)  # as power is never below 0


def _moves_w(times_s: Sequence[float], power_w: Sequence[float], averaging_s: float) -> float:
    """How far apart power was at the begin and the end of the time over which readings are means, in watts, at most."""
    most_w, later = 0.0, 0
    for time_s, watts in zip(times_s, power_w):
        while times_s[later] <= time_s + MOVES_SHARE * averaging_s:
            later += 1
            if later == len(times_s):
                return most_w
        most_w = max(most_w, abs(power_w[later] - watts) * averaging_s / (times_s[later] - time_s))
    return most_w


def _step_w(power_w: Sequence[float]) -> float:
    """Of which power is told in multiples, in watts: some sensors round, others cut off, so that it is off by up to as
    much all along. 0 where that is a milliwatt, or too few values tell.
    """
    values_mw = {round(1000 * watts) for watts in power_w}
    if len(values_mw) <= LOAD_LEVELS:
        return 0.0
    step_mw = reduce(math.gcd, values_mw)
    return step_mw / 1000 if step_mw > 1 else 0.0
