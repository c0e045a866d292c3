"""Turn sampled power and energy counters into energy, and say how sure it is.

Pure arithmetic: no clock, no files, no vendor library.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.errors import NotEnoughSamples

# Half-width of the stated interval per root of summed squared steps. What power did between two samples is unknown
# up to the step between them; a step is rarely alone, as what is brief is seen by chance. 1.5 covers the truth in at
# least 95 of 100 windows of square waves, ramps and spikes shorter than the interval (held by a test).
COVERAGE = 1.5
# Counter and integral come from one sensor in two ways: what is beyond their uncertainties is allowed this share.
COUNTER_TOLERANCE = 0.05


class Totals(NamedTuple):
    """What a channel has gone through up to a moment; the difference of two is what happened between them."""

    time_s: float = math.nan
    energy_j: float = 0.0  # by the trapezoidal rule
    covered_s: float = 0.0  # time between finite samples
    roughness: float = 0.0  # sum over all steps of (change of power x time)^2, in J^2
    variation: float = 0.0  # sum over all steps of |change of power| x time / 2, in J
    samples: int = 0
    missing: int = 0
    counter_j: float = math.nan
    counter_faults: int = 0  # times that the counter fell or could not be read
    power_w: float = math.nan  # the last finite reading


class Accumulator:
    """Fed one reading of a channel at a time, in constant memory.

    Energy by the trapezoidal rule: power is taken to change in a straight line between two samples. A missing sample
    (`nan`) is counted, and its neighbours are joined across it.
    """

    def __init__(self) -> None:
        self.peak_power_w = math.nan
        self.largest_gap_s = 0.0
        self.first = Totals()
        self.last = Totals()
        self._before_last = Totals()
        self._sample_time_s = math.nan

    def add(self, time_s: float, power_w: float, counter_j: float = math.nan) -> None:
        now = self.last
        energy_j, covered_s, roughness, last_power_w = now.energy_j, now.covered_s, now.roughness, now.power_w
        variation, samples, missing = now.variation, now.samples, now.missing
        if power_w != power_w:
            missing += 1
        else:
            if samples:
                step_s = time_s - self._sample_time_s
                energy_j += step_s * (power_w + last_power_w) / 2
                covered_s += step_s
                change_j = (power_w - last_power_w) * step_s
                roughness += change_j * change_j
                variation += abs(change_j) / 2
                if step_s > self.largest_gap_s:
                    self.largest_gap_s = step_s
                if power_w > self.peak_power_w:
                    self.peak_power_w = power_w
            else:
                self.peak_power_w = power_w
            samples += 1
            last_power_w = power_w
            self._sample_time_s = time_s
        faults = now.counter_faults
        if counter_j != counter_j:
            faults += now.counter_j == now.counter_j  # it could be read before
            counter_j = now.counter_j
        elif counter_j < now.counter_j:
            faults += 1
        self._before_last = now
        self.last = Totals(
            time_s, energy_j, covered_s, roughness, variation, samples, missing, counter_j, faults, last_power_w
        )
        if self._before_last.time_s != self._before_last.time_s:
            self.first = self.last

    def at(self, time_s: float) -> Totals:
        """The totals at a moment between the last two readings, power and counter on straight lines between them."""
        before, after = self._before_last, self.last
        if not before.time_s < after.time_s or time_s >= after.time_s:
            return after
        step_s = after.time_s - before.time_s
        share = max(0.0, (time_s - before.time_s) / step_s)
        energy_share = share
        if after.energy_j > before.energy_j and before.power_w == before.power_w:
            middle_w = before.power_w + share * (after.power_w - before.power_w) / 2
            energy_share = min(1.0, share * step_s * middle_w / (after.energy_j - before.energy_j))
        return after._replace(
            time_s=before.time_s + share * step_s,
            energy_j=before.energy_j + energy_share * (after.energy_j - before.energy_j),
            covered_s=before.covered_s + share * (after.covered_s - before.covered_s),
            counter_j=before.counter_j + share * (after.counter_j - before.counter_j),
        )


class EnergyEstimate(NamedTuple):
    """The energy of a window, two witnesses side by side, and which of them was believed."""

    energy_j: float
    uncertainty_j: float  # half-width of the interval that holds the truth in at least 95 of 100 windows
    method: str  # "counter" or "integral"
    reason: str  # why the counter was not used; empty where it was, or where there is none
    duration_s: float
    covered_s: float  # of it, time between finite samples
    avg_power_w: float
    samples: int
    missing: int
    integral_j: float
    integral_uncertainty_j: float
    counter_j: float  # nan without a sound counter
    difference: float  # (integral - counter) / counter


def estimate_energy(
    start: Totals, end: Totals, whole: Totals, info: ChannelInfo, random_phase: bool = False
) -> EnergyEstimate:
    """Energy between two moments of a channel; `whole` is the channel's totals over the whole trace.

    With `random_phase`, samples were taken at random within their intervals, so that what is missed in between adds up
    as independent errors do; without, every change may have been missed in the same direction.
    The uncertainty is that of sampling alone: the sensor's own calibration is its maker's to state. Raises
    NotEnoughSamples when fewer than two samples tell of the window.
    """
    duration_s = end.time_s - start.time_s
    covered_s = end.covered_s - start.covered_s
    if not (covered_s > 0 and duration_s > 0):
        raise NotEnoughSamples(
            f"energy needs at least 2 samples, got {end.samples - start.samples} of {info.name}: "
            "sample faster or run longer"
        )
    avg_power_w = (end.energy_j - start.energy_j) / covered_s
    integral_j = avg_power_w * duration_s
    # A window may by chance have seen less change than is usual in this trace.
    usual = whole.roughness / whole.covered_s * covered_s if whole.covered_s > 0 else 0.0
    spread_j = COVERAGE * math.sqrt(max(end.roughness - start.roughness, usual))
    if not random_phase:
        spread_j = max(spread_j, end.variation - start.variation)
    # Where readings are missing, power may have been anything up to twice the average.
    lost_j = avg_power_w * max(0.0, duration_s - covered_s)
    # A reading that is a mean over some time lags behind: the window's ends belong in part to its neighbours.
    lag_j = info.averaging_s * abs(_finite(end.power_w) - _finite(start.power_w))
    integral_uncertainty_j = spread_j + lost_j + lag_j

    counter_j, reason = end.counter_j - start.counter_j, ""
    counter_uncertainty_j = 2 * info.counter_resolution_j + avg_power_w * info.counter_refresh_s
    tolerance_j = integral_uncertainty_j + counter_uncertainty_j + COUNTER_TOLERANCE * abs(integral_j)
    if not info.has_counter:
        counter_j = math.nan
    elif math.isnan(counter_j):
        reason = "the counter could not be read"
    elif end.counter_faults > start.counter_faults:
        reason = "the counter fell or could not be read"
    elif counter_j == 0:
        reason = "the counter stood still"
    elif abs(counter_j - integral_j) > tolerance_j:
        reason = (
            f"the counter says {counter_j:.0f} J, the integral {integral_j:.0f} J: "
            f"more apart than the {tolerance_j:.0f} J that are not sure"
        )
    by_counter = info.has_counter and not reason
    return EnergyEstimate(
        energy_j=counter_j if by_counter else integral_j,
        uncertainty_j=counter_uncertainty_j if by_counter else integral_uncertainty_j,
        method="counter" if by_counter else "integral",
        reason=reason,
        duration_s=duration_s,
        covered_s=covered_s,
        avg_power_w=(counter_j if by_counter else integral_j) / duration_s,
        samples=end.samples - start.samples,
        missing=end.missing - start.missing,
        integral_j=integral_j,
        integral_uncertainty_j=integral_uncertainty_j,
        counter_j=counter_j,
        difference=relative_difference(integral_j, counter_j),
    )


def _finite(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def accumulate(
    times_s: Sequence[float], power_w: Sequence[float], counter_j: Sequence[float] | None = None
) -> Accumulator:
    """Feed a whole series of readings: seconds, watts, and joules of a counter where there is one."""
    accumulator = Accumulator()
    for index, time_s in enumerate(times_s):
        accumulator.add(time_s, power_w[index], counter_j[index] if counter_j is not None else math.nan)
    return accumulator


def integral_j(times_s: Sequence[float], power_w: Sequence[float]) -> float:
    """Energy in joules under a sampled power curve in watts, by the trapezoidal rule.

    Raises NotEnoughSamples with fewer than two finite samples.
    """
    totals = accumulate(times_s, power_w).last
    if totals.samples < 2:
        raise NotEnoughSamples(f"energy needs at least 2 samples, got {totals.samples}: sample faster or run longer")
    return totals.energy_j


def counter_step(before: int, after: int, counter_range: int) -> int:
    """How far a counter went that starts again at 0 once it has reached `counter_range`, in its own unit."""
    return after - before if after >= before else after - before + counter_range


def relative_difference(value: float, reference: float) -> float:
    """(value - reference) / reference, `nan` where there is no reference."""
    return (value - reference) / reference if reference else math.nan


def add_estimates(a: EnergyEstimate, b: EnergyEstimate) -> EnergyEstimate:
    """Two windows of one channel as one: uncertainties are independent, and one bad counter spoils the sum."""
    counter_j, integral_j = a.counter_j + b.counter_j, a.integral_j + b.integral_j
    energy_j, duration_s = a.energy_j + b.energy_j, a.duration_s + b.duration_s
    return EnergyEstimate(
        energy_j=energy_j,
        uncertainty_j=math.hypot(a.uncertainty_j, b.uncertainty_j),
        method=a.method if a.method == b.method else "counter+integral",
        reason=a.reason or b.reason,
        duration_s=duration_s,
        covered_s=a.covered_s + b.covered_s,
        avg_power_w=energy_j / duration_s,
        samples=a.samples + b.samples,
        missing=a.missing + b.missing,
        integral_j=integral_j,
        integral_uncertainty_j=math.hypot(a.integral_uncertainty_j, b.integral_uncertainty_j),
        counter_j=counter_j,
        difference=(integral_j - counter_j) / counter_j if counter_j else math.nan,
    )
