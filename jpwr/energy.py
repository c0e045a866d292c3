"""Turn sampled power and energy counters into energy.

Pure arithmetic: no clock, no files, no vendor library.
"""

from __future__ import annotations

import math
from typing import Sequence

from jpwr.errors import NotEnoughSamples


class EnergyIntegral:
    """Energy under a power curve, fed one sample at a time, in constant memory.

    The trapezoidal rule: power is taken to change in a straight line between two samples. A missing sample (`nan`)
    is counted, and its neighbours are joined across it.
    """

    def __init__(self) -> None:
        self.energy_j = 0.0
        self.duration_s = 0.0
        self.peak_power_w = math.nan
        self.samples = 0
        self.missing = 0
        self._last_time_s = math.nan
        self._last_power_w = math.nan

    def add(self, time_s: float, power_w: float) -> None:
        if math.isnan(power_w):
            self.missing += 1
            return
        if self.samples:
            step_s = time_s - self._last_time_s
            self.energy_j += step_s * (power_w + self._last_power_w) / 2
            self.duration_s += step_s
            self.peak_power_w = max(self.peak_power_w, power_w)
        else:
            self.peak_power_w = power_w
        self.samples += 1
        self._last_time_s, self._last_power_w = time_s, power_w

    @property
    def avg_power_w(self) -> float:
        """Energy over time, `nan` before there are two samples."""
        return self.energy_j / self.duration_s if self.duration_s > 0 else math.nan


def integrate(times_s: Sequence[float], power_w: Sequence[float]) -> EnergyIntegral:
    """Energy in joules under a sampled power curve in watts, by the trapezoidal rule.

    Raises NotEnoughSamples with fewer than two finite samples.
    """
    integral = EnergyIntegral()
    for time_s, power in zip(times_s, power_w):
        integral.add(time_s, power)
    if integral.samples < 2:
        raise NotEnoughSamples(f"energy needs at least 2 samples, got {integral.samples}: sample faster or run longer")
    return integral


def counter_energy_j(counter_j: Sequence[float] | None) -> float:
    """Energy that a counter went through, in joules; `nan` if there is none, it stood still or it ran backwards.

    A counter that stands still over a window is not a measurement of zero: the device was on.
    """
    finite = [value for value in counter_j or () if not math.isnan(value)]
    if len(finite) < 2 or any(after < before for before, after in zip(finite, finite[1:])):
        return math.nan
    return finite[-1] - finite[0] if finite[-1] > finite[0] else math.nan


def counter_step(before: int, after: int, counter_range: int) -> int:
    """How far a counter went that starts again at 0 once it has reached `counter_range`, in its own unit."""
    return after - before if after >= before else after - before + counter_range


def relative_difference(value: float, reference: float) -> float:
    """(value - reference) / reference, `nan` where there is no reference."""
    return (value - reference) / reference if reference else math.nan
