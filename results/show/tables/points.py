"""Points as a table: the repeats of each in one row, with their interval and the quality of its energy."""

from __future__ import annotations

from collections.abc import Sequence

from results.files.quantities import Shown, quantities
from results.points.repeats import PointResults
from results.show.tables.cells import Cell, Table
from results.show.tables.inference import point_columns_of
from results.show.tables.table import units_of


def point_table(results: Sequence[PointResults]) -> Table:
    """Return a row per point."""
    columns = point_columns_of(results)
    rows = [[column.value(one) for column in columns] for one in results]
    return Table([column.quantity for column in columns], rows, units=units_of(one.any for one in results))


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
