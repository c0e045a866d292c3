"""Energy of one channel in a window: by its counter where that is sound, otherwise by the integral of its power."""

from __future__ import annotations

import math
from typing import Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy.counter import CounterCurve
from jpwr.energy.estimate import EnergyEstimate
from jpwr.energy.power import PowerCurve
from jpwr.energy.statistics import ASSUMED_ACCURACY, SAMPLES_FOR_A_PEAK, TEST_LEVEL
from jpwr.errors import NotEnoughSamples

# Largest share of failed readings without a power limit: high power itself may be the cause of the failure.
MOST_MISSING = 0.01
# Fields of an estimate that a counter has of its own, and fields that are those of the source in use.
BY_COUNTER = ("counter_j", "counter_low_j", "counter_high_j")
RESULT = ("energy_j", "uncertainty_j", "systematic_j", "method", "unknown")


class ChannelEnergy:
    """Energy of one channel between any two moments of its trace.

    `times_s` and `power_w` are samples of power, `counter_times_s` and `counter_j` readings of the counter; nan is a
    reading that failed. With `random_phase`, samples were taken at random moments of their intervals.
    """

    def __init__(
        self,
        info: ChannelInfo,
        times_s: Sequence[float],
        power_w: Sequence[float],
        counter_times_s: Sequence[float] = (),
        counter_j: Sequence[float] = (),
        random_phase: bool = False,
        half_s: Sequence[float] = (),
        counter_half_s: Sequence[float] = (),
    ) -> None:
        self.info = info
        self.power = PowerCurve(times_s, power_w, info, random_phase)
        self.counter = CounterCurve(counter_times_s, counter_j, info, self.power) if info.has_counter else None
        self._is_inconsistent = self._is_inconsistent_overall()

    def _is_inconsistent_overall(self) -> bool:
        """Whether counter and integral differ over the longest sound part of the trace, which shows a scale best."""
        if self.counter is None or not self.counter.read_s or len(self.power.times_s) < 2:
            return False
        part_s = self.counter.longest_sound(self.power.times_s[0], self.power.times_s[-1])
        if not part_s[0] < part_s[1]:
            return False
        return self._differ(self.power.between(*part_s), self.counter.between(*part_s), part_s)

    def _differ(self, integral: EnergyEstimate, counter: EnergyEstimate, window_s: tuple[float, float]) -> bool:
        """Whether both are inconsistent, with the sensor's accuracy as a type B uncertainty (E_n test, ISO 13528)."""
        if integral.unknown or counter.unknown or self.info.from_counter:
            return False
        accuracy_j = (self.info.accuracy or ASSUMED_ACCURACY) * integral.energy_j
        random_j = max(integral.random_j, self.power.sampled_j(*window_s, TEST_LEVEL))
        allowed_j = math.hypot(random_j, accuracy_j) + integral.systematic_j
        return not counter.counter_low_j - allowed_j <= integral.energy_j <= counter.counter_high_j + allowed_j

    def _why_not_integral(self, integral: EnergyEstimate) -> str:
        """Return why samples of power alone determine no energy; empty if they do."""
        if integral.unknown:
            return integral.unknown
        if self.info.from_counter:
            return "has a counter alone, whose slope is its power"
        if self.info.limit_w:
            return ""
        if self.info.seen_share < 1:
            return f"sees {self.info.seen_share:.0%} of the time and has no power limit"
        if len(self.power.times_s) < SAMPLES_FOR_A_PEAK:
            return f"has {len(self.power.times_s)} readings and no power limit: {SAMPLES_FOR_A_PEAK} are needed"
        if integral.missing > MOST_MISSING * (integral.missing + integral.samples):
            return f"has no power limit, and more than {MOST_MISSING:.0%} of its readings failed"
        return ""

    def between(self, start_s: float, end_s: float) -> EnergyEstimate:
        """Estimate the energy of a window; unknown if neither counter nor samples determine it."""
        integral = self.power.between(start_s, end_s)
        why_not = self._why_not_integral(integral)
        if self.counter is None or end_s <= start_s:
            return _without_counter(integral, why_not, "")
        counter = self.counter.between(start_s, end_s)
        if why_not and self._is_inconsistent:
            return _without_counter(integral, why_not, "the counter is inconsistent with power elsewhere in the trace")
        if counter.unknown:
            return _without_counter(integral, why_not, counter.unknown)
        is_compared = counter.energy_j and not self.info.from_counter
        difference = (integral.energy_j - counter.energy_j) / counter.energy_j if is_compared else math.nan
        both = integral._replace(difference=difference, **{name: getattr(counter, name) for name in BY_COUNTER})
        if integral.samples and (self._is_inconsistent or self._differ(integral, counter, (start_s, end_s))):
            # Neither is corrected: the interval of the integral is widened until it contains both.
            furthest_j = max(abs(edge_j - both.energy_j) for edge_j in (both.counter_low_j, both.counter_high_j))
            systematic_j = max(both.systematic_j, furthest_j - both.random_j)
            reason = (
                f"the counter reports {both.counter_j:.4g} J and the integral {both.energy_j:.4g} J: "
                "they are inconsistent, and the interval contains both"
            )
            return both._replace(reason=reason, uncertainty_j=both.random_j + systematic_j, systematic_j=systematic_j)
        if why_not or self.counter.has_new_value(start_s, end_s) or end_s - start_s >= self.counter.refresh_s:
            return both._replace(**{name: getattr(counter, name) for name in RESULT})
        return both


def _without_counter(integral: EnergyEstimate, why_not: str, reason: str) -> EnergyEstimate:
    """Return the integral with the reason why the counter was not used, or why neither gives an energy."""
    if not why_not:
        return integral._replace(reason=reason)
    return EnergyEstimate(unknown=f"{why_not}, and {reason or 'has no counter'}: sample faster, or run longer")


def integral_j(times_s: Sequence[float], power_w: Sequence[float]) -> float:
    """Integrate samples of power in watts by the trapezoidal rule, into joules; nan samples are left out.

    Raises NotEnoughSamples with fewer than two finite samples.
    """
    finite = [(time_s, watts) for time_s, watts in zip(times_s, power_w) if math.isfinite(watts)]
    if len(finite) < 2:
        raise NotEnoughSamples(f"energy needs at least 2 samples, got {len(finite)}: sample faster or run longer")
    return math.fsum((t1 - t0) * (p0 + p1) / 2 for (t0, p0), (t1, p1) in zip(finite, finite[1:]))
