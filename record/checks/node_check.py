"""Rules on the figures of a node check."""

from __future__ import annotations

import statistics

from jpwr.median import median_interval
from record.checks.run import Relations, Sentences
from record.model import Record


def _medians(run: Record) -> Relations:
    """Yield the median of each figure's repeats, with the ends of its interval."""
    for figure in run.node_check.figures:
        values = figure.values
        found = statistics.median(values) if values else None, *median_interval(values)
        for name, value in zip(("value", "low", "high"), found, strict=True):
            yield f"{name} of {figure.name}, rank {figure.rank}", figure.number(name), value, "its repeats"


def _figures_are_of_its_devices(run: Record) -> Sentences:
    ranks = {device.rank for device in run.devices}
    check = run.node_check
    for part, ours in (("figures", check.figures), ("devices", check.devices)):
        if others := {one.rank for one in ours} - ranks:
            yield f"node_check.{part} are of rank {min(others)}, but it has no device of that rank"


RELATIONS = (_medians,)
RULES = (_figures_are_of_its_devices,)
