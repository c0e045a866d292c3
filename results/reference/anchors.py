"""Figures that others published for chips that the suite knows, each with its software, its source and its date.

They are shown next to ours, and never ranked with them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from record.csv_rows import csv_rows

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


@cache
def read_anchors() -> tuple[Anchor, ...]:
    """Return all figures, in the order of the file."""
    return tuple(Anchor(**row) for row in csv_rows(ANCHORS))
