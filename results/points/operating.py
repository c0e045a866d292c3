"""Operating points: the same work at several power limits and clocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from record.derivation import limits_of_all
from record.parts import sensor_channels
from results.find.records import Record
from results.points.repeats import PointResults


class OperatingLimits(NamedTuple):
    """Limits of each device in watts and MHz; None: not known, or devices have different ones."""

    power_w: float | None
    clock_mhz: float | None

    def __str__(self) -> str:
        known = [f"{value:g} {unit}" for value, unit in zip(self, ("W", "MHz"), strict=True) if value]
        return ", ".join(known) or "no known limit"


def limits_of(record: Record) -> OperatingLimits:
    """Return what limited the devices of a run; one whose power limit varied has no power limit."""
    limits = limits_of_all(sensor_channels(record))
    return OperatingLimits(limits["power_limit_w"], limits["clock_limit_mhz"])


def at_limits(results: Iterable[PointResults], *wanted: float | None) -> list[PointResults]:
    """Return the points at a named power limit in watts and clock limit in MHz; None names none."""
    return [
        one
        for one in results
        if all(name in (None, limit) for name, limit in zip(wanted, limits_of(one.any), strict=True))
    ]
