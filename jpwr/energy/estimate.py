"""Energy of one channel in a window, with its uncertainty and its sources, or the reason why it is unknown."""

from __future__ import annotations

import operator
from math import hypot, isnan, nan
from typing import Any, NamedTuple

from jpwr.intervals import with_accuracy

JOULES_PER_WH = 3600.0
SUMMED = (
    *("energy_j", "systematic_j", "integral_j", "integral_systematic_j", "counter_j", "counter_low_j"),
    *("counter_high_j", "duration_s", "covered_s", "samples", "missing"),
)


class EnergyEstimate(NamedTuple):
    """Energy of a window, both sources, and which of them was used. Energies and half-widths in joules."""

    energy_j: float = nan
    uncertainty_j: float = nan  # half-width of the 95 % interval, random and systematic
    systematic_j: float = nan  # systematic component of the uncertainty, a bound
    method: str = ""  # "counter", "integral", or "counter+integral" for several windows
    reason: str = ""  # why the counter was not used; empty if it was, or without a counter
    unknown: str = ""  # why there is no energy, to follow the channel's name; empty if there is one
    duration_s: float = 0.0
    covered_s: float = 0.0  # part of the window between finite samples
    samples: int = 0  # readings of power
    missing: int = 0  # readings of power that failed
    largest_gap_s: float = 0.0  # longest time in the window without a finite sample
    integral_j: float = nan
    integral_uncertainty_j: float = nan
    integral_systematic_j: float = nan
    counter_j: float = nan  # nan without a sound counter
    counter_low_j: float = nan  # lower bound on what the counter counted
    counter_high_j: float = nan  # upper bound on it
    difference: float = nan  # (integral - counter) / counter

    @property
    def random_j(self) -> float:
        """Random component of the uncertainty: half-width at 95 %, in joules."""
        return self.uncertainty_j - self.systematic_j

    @property
    def avg_power_w(self) -> float:
        """Mean power in watts."""
        return self.energy_j / self.duration_s if self.duration_s else nan

    def with_accuracy_j(self, accuracy: float) -> float:
        """Return the half-width in joules including the sensor's accuracy, a bound as a share of the reading."""
        return with_accuracy(self.uncertainty_j, accuracy * abs(self.energy_j))

    def in_wh(self) -> dict[str, Any]:
        """Return the numbers of both sources as reports have them: energies in watt-hours, None if unknown."""
        energies = ("energy", "uncertainty", "random", "systematic", "integral", "integral_uncertainty", "counter")
        return {
            **{f"{name}_wh": known(getattr(self, f"{name}_j") / JOULES_PER_WH) for name in energies},
            "integral_vs_counter": known(self.difference),
            "method": self.method,
            "samples": self.samples,
            "missing": self.missing,
        }


def known(value: float) -> float | None:
    """Return a number for JSON: None for nan."""
    return None if isnan(value) else value


def add_estimates(a: EnergyEstimate, b: EnergyEstimate, overlap: bool = False) -> EnergyEstimate:
    """Add two windows of one channel.

    Systematic components are added linearly, random ones as squares, or linearly if the windows `overlap`.
    """
    added = operator.add if overlap else hypot
    total = a._replace(**{name: getattr(a, name) + getattr(b, name) for name in SUMMED})
    is_compared = total.counter_j and not isnan(a.difference + b.difference)
    integral_random_j = added(*(one.integral_uncertainty_j - one.integral_systematic_j for one in (a, b)))
    return total._replace(
        uncertainty_j=total.systematic_j + added(a.random_j, b.random_j),
        method=a.method if a.method == b.method else "counter+integral",
        reason=a.reason or b.reason,
        largest_gap_s=max(a.largest_gap_s, b.largest_gap_s),
        integral_uncertainty_j=total.integral_systematic_j + integral_random_j,
        difference=(total.integral_j - total.counter_j) / total.counter_j if is_compared else nan,
    )
