"""Operating points: the same work at several power limits and clocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from record.parts import sensor_channels
from record.values import value_at
from results.find.records import Record
from results.points.repeats import PointResults

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


def limits_of(record: Record) -> OperatingLimits:
    """Return what limited the devices of a run; one whose power limit varied is at no operating point."""
    channels = sensor_channels(record)
    if any(one.limits.varied for one in channels):
        return OperatingLimits(None, None)
    powers = {one.limits.power_limit_w for one in channels}
    clocks = {one.limits.clock_limit_mhz for one in channels}
    return OperatingLimits(*(known.pop() if len(known) == 1 else None for known in (powers, clocks)))


def at_limits(results: Iterable[PointResults], *wanted: float | None) -> list[PointResults]:
    """Return the points at a named power limit in watts and clock limit in MHz; None names none."""
    pairs = ((one, zip(wanted, limits_of(one.any), strict=True)) for one in results)
    return [one for one, limits in pairs if all(name in (None, found) for name, found in limits)]


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
