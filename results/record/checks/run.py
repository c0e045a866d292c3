"""A record as the rules read it, and the arithmetic that they share: None wherever a number is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from results.record.parts import is_number

TOLERANCE = 1e-6  # relative, of a number that follows from others
KINDS = ("measured", "effective")  # of windows
ENERGIES = {"energy": "measured", "energy_effective": "effective"}
AROUND, INSIDE = ("node", "supply"), ("device", "module")  # scopes that contain all devices, and those of devices
Sentences = Iterator[str]
Relations = Iterator[tuple[str, Any, Any, str]]  # a number's name, how it is stored, what it should be, and from what


class Run:
    """A record whose missing parts are empty."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record, self.unit, self.layout = record, record["work_unit"], record["layout"]
        self.metrics: dict[str, Any] = record.get("metrics") or {}
        self.devices: list[dict[str, Any]] = record.get("devices") or []
        self.step_times_s: list[Any] = record.get("step_times_s") or []
        self.energies: dict[str, dict[str, Any]] = {key: record.get(key) or {} for key in ENERGIES}
        measured = (record.get("regions") or {}).get("measured") or {}
        self.step_with_regions_s = measured.get("step_s")
        self.regions: dict[str, dict[str, Any]] = measured.get("regions") or {}

    def channels(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Yield each channel with its energy and that one's key."""
        for key, energy in self.energies.items():
            yield from ((key, energy, channel) for channel in energy.get("channels") or [])


def differs(name: str, stored: Any, origin: str, value: Any) -> Sentences:
    if value != stored:
        yield f"{name} is stored as {stored!r}, but {origin} says {value!r}"


def exceeds(part: Any, whole: Any) -> bool:
    return is_number(part) and is_number(whole) and part > whole + TOLERANCE * abs(whole)


def total(values: Iterable[Any]) -> float:
    """The sum of those values that are numbers."""
    return math.fsum(filter(is_number, values))


def sum_of_all(values: Sequence[Any]) -> float | None:
    """The sum; None without values, and unless all are numbers."""
    return math.fsum(values) if values and all(map(is_number, values)) else None


def ratio(value: Any, by: Any) -> float | None:
    return value / by if is_number(value) and is_number(by) and by else None


def product(*values: Any) -> float | None:
    return math.prod(values) if all(map(is_number, values)) else None
