"""Cells on the power of the whole system: the level of its measurement, and the power at the wall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from results.points.wall import MODEL
from results.record.findings import joined
from results.record.model import Record
from results.record.quantities import QUANTITIES, Quantity
from results.record.values import count
from results.show.tables.cells import Amount, Cell
from results.verdicts.power_level import PowerLevel, power_level


def lowest_level(records: Sequence[Record]) -> PowerLevel | None:
    """Return the lowest level of the records' energies; None without an energy."""
    levels = [level for one in records if (level := power_level(one))]
    return min(levels, key=lambda one: one.level, default=None)


def level_cell(records: Sequence[Record]) -> Cell:
    """Return the lowest level of the records' energies in words."""
    level = lowest_level(records)
    return level.words if level else None


def lacking_cell(records: Sequence[Record]) -> Cell:
    """Return what the records' energies lack for the level above the lowest."""
    level = lowest_level(records)
    return joined(level.lacking) if level else None


def wall_cell(records: Sequence[Record]) -> Cell:
    """Return the power at the wall of the first record that has one, with its interval and how it came about."""
    wall = next((one.wall for one in records if one.wall.how), None)
    if wall is None or wall.power_w is None or wall.low_w is None or wall.high_w is None:
        return None
    of = f" of {count(int(wall.nodes), 'node')}" if wall.how == MODEL and wall.nodes else ""
    half_w = max(wall.power_w - wall.low_w, wall.high_w - wall.power_w)
    return Amount(wall.power_w, half_w, with_half=True, words=f", {wall.how}{of}")


CELLS: Mapping[str, Callable[[Sequence[Record]], Cell]] = {
    "power_level": level_cell,
    "next_level": lacking_cell,
    "wall_power_w": wall_cell,
}
OF_RECORDS: Mapping[Quantity, Callable[[Sequence[Record]], Cell]] = {
    QUANTITIES[name]: one for name, one in CELLS.items()
}
PERCENTILES = ("p75_power_w", "p90_power_w", "p99_power_w")
NAMES = (*PERCENTILES, *CELLS)
