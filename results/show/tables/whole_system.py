"""Cells on the power of the whole system: the level of its measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from record.findings import joined
from record.model import Record
from results.files.quantities import QUANTITIES
from results.show.tables.cells import Cell
from results.verdicts.power_level import lowest_level


def level_cell(records: Sequence[Record]) -> Cell:
    """Return the lowest level of the records' energies in words."""
    level = lowest_level(records)
    return level.words if level else None


def lacking_cell(records: Sequence[Record]) -> Cell:
    """Return what the records' energies lack for the level above the lowest."""
    level = lowest_level(records)
    return joined(level.lacking) if level else None


CELLS: Mapping[str, Callable[[Sequence[Record]], Cell]] = {
    "power_level": level_cell,
    "next_level": lacking_cell,
}
OF_RECORDS = {QUANTITIES[name]: one for name, one in CELLS.items()}
NAMES = ("p75_power_w", "p90_power_w", "p99_power_w", *CELLS)
LONG = QUANTITIES["next_level"].title  # of a column that fits no page
