"""Energy of one channel in a window: by its counter where that is sound, otherwise by the integral of its power."""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy.counter import CounterCurve, CounterEnergy
from jpwr.energy.power import PowerCurve, PowerEnergy
from jpwr.energy.statistics import ASSUMED_ACCURACY, SAMPLES_FOR_A_PEAK, TEST_LEVEL, with_accuracy
from jpwr.errors import NotEnoughSamples

# Largest share of failed readings without a power limit: high power itself may be the cause of the failure.
MOST_MISSING = 0.01


class EnergyEstimate(NamedTuple):
    """Energy of a window, both sources, and which of them was used. Energies and half-widths in joules."""

    energy_j: float
    uncertainty_j: float  # half-width of the 95 % interval, random and systematic
    method: str  # "counter" or "integral"
    reason: str  # why the counter was not used; empty if it was, or without a counter
    duration_s: float
    covered_s: float  # part of the window between finite samples
    avg_power_w: float
    samples: int
    missing: int
    largest_gap_s: float  # longest time in the window without a finite sample
    integral_j: float
    integral_uncertainty_j: float
    counter_j: float  # nan without a sound counter
    difference: float  # (integral - counter) / counter
    systematic_j: float  # systematic component of the uncertainty, a bound
    integral_systematic_j: float

    @property
    def random_j(self) -> float:
        """Random component of the uncertainty: half-width at 95 %, in joules."""
        return self.uncertainty_j - self.systematic_j

    def with_accuracy_j(self, accuracy: float) -> float:
        """Return the half-width in joules including the sensor's accuracy, a bound as a share of the reading."""
        return with_accuracy(self.uncertainty_j, accuracy * abs(self.energy_j))


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
        return part_s[0] < part_s[1] and self._differ(self.power.between(*part_s), self.counter.between(*part_s))

    def _differ(self, integral: PowerEnergy, counter: CounterEnergy) -> bool:
        """Whether both are inconsistent, with the sensor's accuracy as a type B uncertainty (E_n test, ISO 13528)."""
        if not integral.covered_s or counter.fault or self.info.from_counter:
            return False
        accuracy_j = (self.info.accuracy or ASSUMED_ACCURACY) * integral.energy_j
        allowed_j = math.hypot(integral.random_at(TEST_LEVEL), accuracy_j) + integral.systematic_j
        return not counter.low_j - allowed_j <= integral.energy_j <= counter.high_j + allowed_j

    def _why_not_integral(self, integral: PowerEnergy) -> str:
        """Return why samples of power alone determine no energy; empty if they do."""
        if not integral.covered_s:
            return "has fewer than two readings of power in the window"
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
        """Estimate the energy of a window.

        Raises NotEnoughSamples if neither counter nor samples determine it.
        """
        duration_s = end_s - start_s
        integral = self.power.between(start_s, end_s)
        counter = self.counter.between(start_s, end_s) if self.counter and duration_s > 0 else None
        reason = ""
        why_not = self._why_not_integral(integral)
        if counter and why_not and self._is_inconsistent:
            counter = CounterEnergy(fault="is inconsistent with power elsewhere in the trace")
        if counter and counter.fault:
            reason, counter = f"the counter {counter.fault}", None
        if why_not and not counter:
            raise NotEnoughSamples(
                f"{self.info.name} {why_not}, and {reason or 'has no counter'}: sample faster, or run longer"
            )
        energy_j, systematic_j, random_j = integral.energy_j, integral.systematic_j, integral.random_j
        method = "integral"
        if counter and integral.samples and (self._is_inconsistent or self._differ(integral, counter)):
            # Neither is corrected: the interval of the integral is widened until it contains both.
            reason = (
                f"the counter reports {counter.energy_j:.4g} J and the integral {integral.energy_j:.4g} J: "
                "they are inconsistent, and the interval contains both"
            )
            furthest_j = max(abs(counter.low_j - energy_j), abs(counter.high_j - energy_j))
            systematic_j = max(systematic_j, furthest_j - random_j)
        elif self.counter and counter and (counter.values or why_not or duration_s >= self.counter.refresh_s):
            method = "counter"
            energy_j, random_j = counter.energy_j, 0.0
            systematic_j = max(counter.high_j - energy_j, energy_j - counter.low_j)
        difference = math.nan
        if counter and counter.energy_j and not self.info.from_counter:
            difference = (integral.energy_j - counter.energy_j) / counter.energy_j
        return EnergyEstimate(
            energy_j=energy_j,
            uncertainty_j=random_j + systematic_j,
            method=method,
            reason=reason,
            duration_s=duration_s,
            covered_s=integral.covered_s,
            avg_power_w=energy_j / duration_s,
            samples=integral.samples,
            missing=integral.missing,
            largest_gap_s=integral.largest_gap_s,
            integral_j=integral.energy_j,
            integral_uncertainty_j=integral.random_j + integral.systematic_j,
            counter_j=counter.energy_j if counter else math.nan,
            difference=difference,
            systematic_j=systematic_j,
            integral_systematic_j=integral.systematic_j,
        )


def integral_j(times_s: Sequence[float], power_w: Sequence[float]) -> float:
    """Integrate samples of power in watts by the trapezoidal rule, into joules; nan samples are left out.

    Raises NotEnoughSamples with fewer than two finite samples.
    """
    finite = [(time_s, watts) for time_s, watts in zip(times_s, power_w) if math.isfinite(watts)]
    if len(finite) < 2:
        raise NotEnoughSamples(f"energy needs at least 2 samples, got {len(finite)}: sample faster or run longer")
    return math.fsum((t1 - t0) * (p0 + p1) / 2 for (t0, p0), (t1, p1) in zip(finite, finite[1:]))
