"""Points as a table: the repeats of each in one row, with their interval and the quality of its energy."""

from __future__ import annotations

from collections.abc import Sequence

from results.points.repeats import PointResults
from results.record.findings import Finding
from results.record.quantities import Shown, quantities
from results.show.tables.cells import Cell, Table, sort_value
from results.show.tables.inference import point_columns_of
from results.show.tables.point_columns import COLUMNS
from results.show.tables.table import always, column_of, ordered
from results.verdicts.quality import deviations


def point_table(results: Sequence[PointResults], wanted: Sequence[str] = ()) -> Table:
    """Return a row per point; the columns with the titles `wanted` are always needed."""
    records = [one.any for one in results]
    columns = point_columns_of(results)
    rows = [[column.value(one) for column in columns] for one in results]
    shown = always(wanted, [column.quantity for column in columns], records)
    return Table(shown, rows).of(record["work_unit"] for record in records)


# Columns that identify a point in tables of its parts.
PLACE = [
    one._replace(shown=Shown.DIFFERS) for one in quantities("system", "model", "devices", "global_batch", "variant")
]


def place_of(one: PointResults) -> list[Cell]:
    """Return the cells of the columns PLACE."""
    point = one.point
    return [one.system, point.model, point.devices, point.global_batch, one.variant]


def place_view(table: Table, everything: bool) -> Table:
    """Return the needed columns of a table that begins with the columns PLACE, each place once."""
    found = table.needed(everything)
    return found if everything else found.once_each(sum(one in PLACE for one in found.columns))


def points_in_order(results: Sequence[PointResults], title: str, largest_first: bool = False) -> list[PointResults]:
    """Sort points by a column's value, those without one last. Raises RecordError for an unknown title."""
    at = column_of(title, [one.quantity for one in COLUMNS], [one.any for one in results])
    return ordered(results, lambda one: sort_value(COLUMNS[at].value(one)), largest_first)


def notes(results: Sequence[PointResults]) -> list[tuple[str, list[Finding]]]:
    """Return the name of each point that deviates from the rules, with its deviations."""
    return [(f"{one.system}: {one.point}", found) for one in results if (found := deviations(one))]
