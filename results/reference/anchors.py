"""Figures that others published for chips that the suite knows, each with its software, its source and its date.

They are shown next to ours, and never ranked with them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from results.files.csv_rows import csv_rows
from results.reference.published import PUBLISHED

ANCHORS = Path(__file__).with_suffix(".csv")
PER_DEVICE_UNITS = ("tokens/s/device", "output tokens/s/device")


class Anchor(NamedTuple):
    """One published figure as in the file; what was not published is empty."""

    systems: str  # our tags
    like: str  # our tags of systems with the same processor and another memory, for training
    chip: str
    benchmark: str
    model: str
    ours: str  # our name of the same model
    precision: str
    devices: str
    metric: str
    value: str
    unit: str
    software: str
    source: str
    read: str  # the day: software moves figures more than hardware does
    note: str

    @property
    def label(self) -> str:
        """Software, the note up to its first semicolon, and the date, for a plot."""
        facts = [f"{PUBLISHED}{self.software}", self.note.partition(";")[0], f"read {self.read}"]
        return ", ".join(filter(None, facts))

    def agrees(self, system: str, benchmark: str, model: str, precision: str) -> bool:
        """Return whether it is a speed per device of the same system, model and precision, all of them stated."""
        stated = self.ours and self.precision and self.unit in PER_DEVICE_UNITS
        same = (self.benchmark, self.ours, self.precision) == (benchmark, model, precision)
        return bool(stated) and same and system in self.systems.split()


@cache
def read_anchors() -> tuple[Anchor, ...]:
    """Return all figures, in the order of the file."""
    return tuple(Anchor(**row) for row in csv_rows(ANCHORS))
