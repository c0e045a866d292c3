"""Uncertainty of a record's energy: by sampling, and by the accuracy of its sensor."""

from __future__ import annotations

import math

from jpwr.intervals import BOUND, NORMAL_95
from record.arithmetic import ratio
from results.find.records import Record

STATED = ("data sheet", "documentation")  # sources of an accuracy that the vendor states


def sampling_share(record: Record) -> float | None:
    """Return the relative half-width of the energy's interval by sampling and counter; None without one."""
    return ratio(record.energy.uncertainty_wh, record.energy.energy_wh) if record.energy else None


def sampling_error(record: Record, energy: str = "energy") -> float:
    """Return the relative standard uncertainty of an energy by sampling and counter; 0 if the record states none.

    Records of earlier versions do not separate the components: their uncertainty is a bound.
    """
    values = record.energy_of(energy)
    if values is None or not values.energy_wh:
        return 0.0
    random_wh, systematic_wh = values.random_wh, values.systematic_wh
    if random_wh is None or systematic_wh is None:
        random_wh, systematic_wh = 0.0, values.uncertainty_wh or 0.0
    return math.hypot(random_wh / NORMAL_95, systematic_wh / BOUND) / values.energy_wh


def accuracy_text(record: Record) -> str:
    """Return the accuracy of the sensor with its source, as text."""
    energy = record.energy
    return f"±{100 * energy.accuracy:.2g} % ({energy.accuracy_from})" if energy and energy.accuracy else "not stated"


def sensor_models(record: Record, energy: str = "energy") -> frozenset[tuple[str, str]]:
    """Return the sensors of an energy with their devices: runs with the same models share the error of the sensor."""
    values = record.energy_of(energy)
    sources = {str(channel.source) for channel in values.channels} if values else set()
    names = {str(device.name) for device in record.devices}
    return frozenset((source, name) for source in sources for name in names)
