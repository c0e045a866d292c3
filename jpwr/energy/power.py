"""Energy under samples of power: the integral, and its uncertainty.

The model: a reading is the power of its moment, or what the channel documents (`averaging_s`, `held_s`, `seen_share`),
and the moments are random. Then the trapezoidal integral is unbiased for any load.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import add, mul, sub
from typing import Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy.estimate import EnergyEstimate
from jpwr.energy.statistics import LEVEL, SAMPLES_FOR_A_PEAK, SAMPLES_FOR_A_RANGE, missed_share, students_t

# One sample at a random moment of each interval is one from each stratum, and the variance follows from differences of
# neighbours (collapsed strata: Cochran, Sampling Techniques, 3rd ed., 5A.12; Wolter, Introduction to Variance
# Estimation, ch. 8). A sample's weight is half the time between its neighbours, with a mean square of 25/24 intervals
# squared; the product of a difference and its step has a mean square of 2 x 7/6 variances times intervals squared.
VARIANCE_OF_SQUARES = (25 / 24) / (2 * 7 / 6)
# A straight line across a step of power at an edge is off by change x step x (1 - x)^2 / 2, with x uniform on [0, 1].
EDGE_SHARE = 1 / 6
GAP_STEPS = 2.5  # the sampler never leaves more than two intervals between samples unless one is missing
ROUNDING = 1e-9  # of sums of a million numbers of 53 bits


class PowerCurve:
    """Straight lines between finite samples; `times_s` in ascending order, `power_w` with nan for failed readings."""

    def __init__(
        self, times_s: Sequence[float], power_w: Sequence[float], info: ChannelInfo, random_phase: bool
    ) -> None:
        self.info, self.random_phase = info, random_phase
        self.missing_s = [time_s for time_s, watts in zip(times_s, power_w) if not math.isfinite(watts)]
        if self.missing_s:
            finite = [(time_s, watts) for time_s, watts in zip(times_s, power_w) if math.isfinite(watts)]
            times_s, power_w = [time_s for time_s, _ in finite], [watts for _, watts in finite]
        self.times_s, self.power_w = times_s, power_w
        self.lowest_w, self.peak_w = min(power_w, default=math.nan), max(power_w, default=math.nan)
        # Readings of an H200 reach 829 W at a limit of 700 W: the limit alone does not bound the power of a moment.
        self.highest_w = max(info.limit_w, self.peak_w)  # highest known power, in watts
        self.most_w = self.highest_w if info.limit_w else math.inf  # upper bound on power, in watts
        self.steps_s = steps_s = array("d", map(sub, times_s[1:], times_s))
        self.usual_step_s = sorted(steps_s)[len(steps_s) // 2] if steps_s else 0.0
        self._twice_j = array("d", accumulate(map(mul, steps_s, map(add, power_w[1:], power_w)), initial=0.0))
        # Repeats of a held value are one sample.
        changes_w = map(sub, power_w[1:], power_w)
        swings_j = [change_w * max(step_s, info.held_s) for change_w, step_s in zip(changes_w, steps_s)]
        unseen_j = array("d", [0.0]) * len(steps_s)
        failed = {bisect_right(times_s, time_s) - 1 for time_s in self.missing_s}  # high power itself may be the cause
        for index, step_s in enumerate(steps_s):
            if index in failed or step_s > GAP_STEPS * self.usual_step_s:
                unseen_j[index] = self._beyond_w((power_w[index] + power_w[index + 1]) / 2) * step_s
                swings_j[index] = 0.0
        squares = list(map(mul, swings_j, swings_j))
        self._unseen_j = unseen_j
        self._sum_unseen_j = array("d", accumulate(unseen_j, initial=0.0))
        self._sum_squares = array("d", accumulate(squares, initial=0.0))
        self._sum_fourths = array("d", accumulate(map(mul, squares, squares), initial=0.0))
        self._sum_swings_j = array("d", accumulate(map(abs, swings_j), initial=0.0))

    def _beyond_w(self, middle_w: float) -> float:
        """Return the largest difference in watts between a power and that of time without readings."""
        return max(self.highest_w - middle_w, middle_w - min(0.0, self.lowest_w))

    def range_w(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Return the lowest and highest power between two moments in watts, from the 93 nearest samples or more.

        If these do not cover every moment, the range is from 0 to the limit, or to infinity without one.
        """
        times_s, info = self.times_s, self.info
        first, last = bisect_right(times_s, start_s), bisect_left(times_s, end_s + info.held_s)
        is_unseen = len(times_s) < SAMPLES_FOR_A_RANGE or start_s < times_s[0] or end_s > times_s[-1]
        has_gap = self._sum_unseen_j[min(last, len(self.steps_s))] > self._sum_unseen_j[max(0, first - 1)]
        if is_unseen or has_gap or info.seen_share < 1 or info.averaging_s or info.from_counter:
            return 0.0, self.most_w
        more = max(0, SAMPLES_FOR_A_RANGE - (last - first)) // 2 + 1
        near_w = self.power_w[max(0, first - more) : last + more]
        return max(0.0, min(near_w)), max(near_w)

    def until_j(self, time_s: float) -> float:
        """Return the energy from the first sample to a moment, in joules."""
        index = self._step(time_s)
        since_s = time_s - self.times_s[index]
        return float(self._twice_j[index] / 2 + since_s * (self.power_w[index] + self.at_w(time_s)) / 2)

    def at_w(self, time_s: float) -> float:
        """Return the power at a moment by linear interpolation, in watts."""
        index = self._step(time_s)
        return self.power_w[index] + self._share(index, time_s) * (self.power_w[index + 1] - self.power_w[index])

    def _step(self, time_s: float) -> int:
        return max(0, min(bisect_right(self.times_s, time_s), len(self.times_s) - 1) - 1)

    def _share(self, index: int, time_s: float) -> float:
        step_s = self.steps_s[index]
        return min(1.0, max(0.0, (time_s - self.times_s[index]) / step_s)) if step_s else 0.0

    def between(self, start_s: float, end_s: float) -> EnergyEstimate:
        """Integrate over a window; the energy is unknown unless two samples cover a part of it."""
        times_s, info, duration_s = self.times_s, self.info, end_s - start_s
        missing = bisect_right(self.missing_s, end_s) - bisect_left(self.missing_s, start_s)
        first_s, last_s = (max(start_s, times_s[0]), min(end_s, times_s[-1])) if times_s else (0.0, 0.0)
        covered_s = last_s - first_s
        if not covered_s > 0:
            why = "has fewer than two readings of power in the window"
            return EnergyEstimate(unknown=why, duration_s=duration_s, missing=missing, largest_gap_s=duration_s)
        low, high = self._samples(start_s, end_s)
        begin, end = bisect_left(times_s, start_s), bisect_right(times_s, end_s)
        average_w = (self.until_j(last_s) - self.until_j(first_s)) / covered_s
        beyond_w = self._beyond_w(average_w)
        independent = covered_s / max(info.held_s, covered_s / max(1, end - begin))
        spread_w = self.peak_w - self.lowest_w if len(times_s) >= SAMPLES_FOR_A_PEAK else beyond_w
        missed_j = missed_share(independent) * covered_s * spread_w
        random_j = max(self.sampled_j(start_s, end_s, LEVEL), missed_j)
        systematic_j = (
            ROUNDING * self.highest_w * duration_s
            + self._edge_j(low)
            + self._edge_j(high - 1)  # both edges may be in one step
            + self._lag_j(first_s, last_s, average_w)
            + self._unseen_until_j(last_s)
            - self._unseen_until_j(first_s)
            + beyond_w * (duration_s - covered_s + (1 - info.seen_share) * covered_s)
        )
        if not self.random_phase:  # samples in step with the load err in one direction
            swings_j = self._sum_swings_j[high] - self._sum_swings_j[low]
            random_j, systematic_j = 0.0, systematic_j + max(missed_j, swings_j / 2)
        if info.limit_w:
            most_j = beyond_w * duration_s
            systematic_j = min(systematic_j, most_j)
            random_j = min(random_j, most_j - systematic_j)
        seen_s = [start_s, *times_s[begin:end], end_s]
        energy_j, uncertainty_j = average_w * duration_s, random_j + systematic_j
        return EnergyEstimate(
            energy_j,
            uncertainty_j,
            systematic_j,
            "integral",
            duration_s=duration_s,
            covered_s=covered_s,
            samples=end - begin,
            missing=missing,
            largest_gap_s=max(map(sub, seen_s[1:], seen_s)),
            integral_j=energy_j,
            integral_uncertainty_j=uncertainty_j,
            integral_systematic_j=systematic_j,
        )

    def _samples(self, start_s: float, end_s: float) -> tuple[int, int]:
        """Return the indices of the samples around the covered part of a window."""
        return self._step(start_s), min(bisect_left(self.times_s, end_s), len(self.times_s) - 1)

    def sampled_j(self, start_s: float, end_s: float, level: float) -> float:
        """Return the half-width of sampling at a confidence level in joules, by degrees of freedom (GUM, G.4.1).

        It is at least this window's share of the trace's: a short window may by chance have sampled little change.
        """
        low, high = self._samples(start_s, end_s)
        square, fourth = (sums[high] - sums[low] for sums in (self._sum_squares, self._sum_fourths))
        share = (high - low) / len(self.steps_s)
        if square < self._sum_squares[-1] * share:
            square, fourth = self._sum_squares[-1] * share, self._sum_fourths[-1] * share**2
        freedom = square**2 / fourth if fourth else math.inf
        return students_t(level, freedom) * math.sqrt(VARIANCE_OF_SQUARES * square) if square else 0.0

    def _edge_j(self, index: int) -> float:
        near_w = self.power_w[max(0, index - 1) : index + 3]
        change_w = max(near_w) - min(near_w)
        return float(EDGE_SHARE * change_w * max(self.steps_s[index], self.info.held_s))

    def _lag_j(self, start_s: float, end_s: float, average_w: float) -> float:
        """Return a bound in joules, for both edges, on the error from readings that describe the time before them.

        Readings that are means over T include some energy of the T before the window, weighted from 0 to 1, and lack as
        much at its end. For power between 0 and P with a mean of m over T, a mean weighted from 0 to 2 has an error of
        at most m (1 - m / P). In the extreme case, power has two values.
        """
        averaging_s, most_w = self.info.averaging_s, self.most_w
        start_w, end_w = self.at_w(start_s), self.at_w(end_s)
        means_w = max(start_w, average_w), max(end_w, average_w)
        hidden_w = sum(mean_w * (1 - mean_w / most_w) for mean_w in means_w)
        return (averaging_s + self.info.held_s) / 2 * abs(end_w - start_w) + averaging_s / 2 * hidden_w

    def _unseen_until_j(self, time_s: float) -> float:
        index = self._step(time_s)
        return float(self._sum_unseen_j[index] + self._share(index, time_s) * self._unseen_j[index])
