"""Cells on the power of the whole system: the level of its measurement, and the power at the wall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from results.points.wall import ESTIMATE
from results.record.findings import joined
from results.record.model import Record, Wall
from results.record.quantities import QUANTITIES
from results.record.values import count
from results.show.tables.cells import Amount, Cell
from results.verdicts.power_level import lowest_level


def level_cell(records: Sequence[Record]) -> Cell:
    """Return the lowest level of the records' energies in words."""
    level = lowest_level(records)
    return level.words if level else None


def lacking_cell(records: Sequence[Record]) -> Cell:
    """Return what the records' energies lack for the level above the lowest."""
    level = lowest_level(records)
    return joined(level.lacking) if level else None


def _wall(records: Sequence[Record]) -> Wall:
    return next((one.wall for one in records if one.wall.how), records[0].wall if records else Wall())


def wall_cell(records: Sequence[Record]) -> Cell:
    """Return the power at the wall of the first record that has one, with its interval."""
    wall = _wall(records)
    if wall.power_w is None or wall.low_w is None or wall.high_w is None:
        return None
    return Amount(wall.power_w, max(wall.power_w - wall.low_w, wall.high_w - wall.power_w), with_half=True)


def wall_kind_cell(records: Sequence[Record]) -> Cell:
    """Return how the power at the wall came about, what its interval lacks, or why there is none."""
    wall = _wall(records)
    words = [wall.how, f"of {count(int(wall.nodes), 'node')}" if wall.nodes else ""]
    is_stated = wall.how in ("", ESTIMATE) or any(one.energy and one.energy.site.accuracy_percent for one in records)
    lacking = "" if is_stated else "the sensor's accuracy is not stated"
    why_not = str(wall.why_not) if wall.why_not else ""
    return ": ".join(filter(None, [" ".join(filter(None, words)), lacking, why_not])) or None


CELLS: Mapping[str, Callable[[Sequence[Record]], Cell]] = {
    "power_level": level_cell,
    "next_level": lacking_cell,
    "wall_power_w": wall_cell,
    "wall_kind": wall_kind_cell,
}
OF_RECORDS = {QUANTITIES[name]: one for name, one in CELLS.items()}
NAMES = ("p75_power_w", "p90_power_w", "p99_power_w", *CELLS)
LONG = tuple(QUANTITIES[name].title for name in ("next_level", "wall_kind"))  # titles of columns that fit no page
