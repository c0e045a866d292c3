"""Operating points: the same work at several power limits and clocks.

All ratios are to the point at full speed: the one with the highest power limit and clock. They are of one sensor, whose
accuracy cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from record.parts import sensor_channels
from record.values import THROUGHPUT, WORK, energy_source, grouped, value_at
from results.find.records import Record
from results.points.estimate import Estimate, exactly
from results.points.repeats import PointResults
from results.points.setups import CLOCK_LIMIT, LIMIT, setup_of

# Facts of a setup that follow the limits: as the sampler and as the vendors' tools record them.
OF_LIMITS = (LIMIT, CLOCK_LIMIT, "power.limit", "clocks.applications.graphics", "limit")
# A mean clock repeats to about 1 %, and a GPU's leakage changes its power by about 1 % in 3 degrees.
DRIFTS = (
    ("energy.clock_drift_percent", 2.0, "the clock changed by {:+.1f} %"),
    ("energy.temperature_drift_c", 3.0, "the temperature changed by {:+.0f} °C"),
)


class OperatingLimits(NamedTuple):
    """Limits of each device in watts and MHz; None: not known, or devices have different ones."""

    power_w: float | None
    clock_mhz: float | None

    def __str__(self) -> str:
        known = [f"{value:g} {unit}" for value, unit in zip(self, ("W", "MHz"), strict=True) if value]
        return ", ".join(known) or "no known limit"


class OperatingPoint(NamedTuple):
    """One point of a sweep; ratios are to the point at full speed, None without a value."""

    limits: OperatingLimits
    results: PointResults
    speed: Estimate | None
    work: Estimate | None  # per energy


class Sweep(NamedTuple):
    """Operating points of one system and workload, the one at full speed first."""

    points: list[OperatingPoint]

    @property
    def full(self) -> OperatingPoint:
        """Point at full speed."""
        return self.points[0]

    @property
    def name(self) -> str:
        """System, place and options of the sweep, as text."""
        one = self.full.results
        return ", ".join([one.system, one.point.model, one.point.place, *options_of(one)])

    @property
    def is_measured(self) -> bool:
        """Whether the point at full speed has an energy that is no estimate."""
        return self.full.work is not None and value_at(self.full.results.any, "energy.power_kind") != "estimated"


def limits_of(record: Record) -> OperatingLimits:
    """Return what limited the devices of a run; a record of an older version names the power limit alone.

    A run whose power limit varied is at no operating point.
    """
    channels = sensor_channels(record)
    if any(one.limits.varied for one in channels):
        return OperatingLimits(None, None)
    powers = {one.power_limit_w for one in channels}
    clocks = {one.limits.clock_limit_mhz for one in channels}
    return OperatingLimits(*(known.pop() if len(known) == 1 else None for known in (powers, clocks)))


def options_of(one: PointResults) -> list[str]:
    """Return the choices of a point that are no limits, as text."""
    return [words for words in one.variant if not words.startswith(OF_LIMITS)]


def at_limits(results: Iterable[PointResults], *wanted: float | None) -> list[PointResults]:
    """Return the points at a named power limit in watts and clock limit in MHz; None names none."""
    pairs = ((one, zip(wanted, limits_of(one.any), strict=True)) for one in results)
    return [one for one, limits in pairs if all(name in (None, found) for name, found in limits)]


def sweeps_of(results: Iterable[PointResults]) -> list[Sweep]:
    """Return a sweep for each system and workload whose good points differ in limits alone, at two points or more."""

    def without_limits(one: PointResults) -> object:
        facts = [
            fact for fact in setup_of(one.any) if not f"{fact[0]}.".startswith(tuple(f"{name}." for name in OF_LIMITS))
        ]
        return one.system, one.point, tuple(facts), energy_source(one.any)

    good = [one for one in results if one.good and any(limits_of(one.any))]
    by_setup = (grouped(mine, lambda one: limits_of(one.any)) for mine in grouped(good, without_limits).values())
    return [_sweep(points) for points in by_setup if len(points) > 1]


def _sweep(points: dict[OperatingLimits, list[PointResults]]) -> Sweep:
    # Points at the same limits are one: a vendor's tool may describe them differently. Without a limit of the clock, it
    # may be highest of all.
    order = sorted(points, key=lambda one: (one.power_w or 0.0, one.clock_mhz or math.inf), reverse=True)
    joined = [points[one][0]._replace(good=[run for each in points[one] for run in each.good]) for one in order]
    full = joined[0]

    def ratio(one: PointResults, path: str) -> Estimate | None:
        return one.over(full, path) if one is not full else full.estimate(path) and exactly(1.0)

    return Sweep(
        [
            OperatingPoint(limits, one, ratio(one, THROUGHPUT), ratio(one, WORK))
            for limits, one in zip(order, joined, strict=True)
        ]
    )


def limited_percent(one: PointResults) -> float | None:
    """Return the largest share of the window in which the power limit bound, in percent; None if unknown."""
    clocks = (channel.clocks for run in one.good for channel in sensor_channels(run))
    known = [reasons.get("power limit", 0.0) for each in clocks if (reasons := each.throttled) is not None]
    return max(known, default=None)


def unsettled(one: PointResults) -> str:
    """Return how clock or temperature drifted within the windows of a point, as text; empty if they were steady."""
    words = []
    for path, most, sentence in DRIFTS:
        worst = max((drift for run in one.good if (drift := value_at(run, path)) is not None), key=abs, default=0.0)
        words += [sentence.format(worst)] if abs(worst) > most else []
    return " and ".join(words)
