"""Points as a table: the repeats of each in one row, with their interval and the quality of its energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from results.points.repeats import PointResults
from results.record.findings import Finding
from results.record.values import Number, rounded
from results.show.tables.fit import Shown, View, once_each, view
from results.show.tables.inference import point_columns_of
from results.show.tables.point_columns import COLUMNS, PointColumn
from results.show.tables.table import column_of, ordered, shown_of
from results.verdicts.quality import deviations


def point_view(
    results: Sequence[PointResults], number: Number = rounded, everything: bool = False, wanted: Sequence[str] = ()
) -> View:
    """Return a row per point with the columns that a reader needs, and those with the titles `wanted`."""
    records = [one.any for one in results]
    units = dict.fromkeys(record.work_unit for record in records)
    columns = point_columns_of(results)
    rows = [[column.title.format(unit=" or ".join(units)) for column in columns]]
    rows += [[_text(one, column, number) for column in columns] for one in results]
    return view(rows, shown_of(columns, records, wanted), everything)


def point_rows(results: Sequence[PointResults]) -> list[list[str]]:
    """Return the header and one row per point, as text, without empty columns."""
    return point_view(results, everything=True).lines


def _text(one: PointResults, column: PointColumn, number: Number) -> str:
    value = column.value(one)
    return str(value) if isinstance(value, str | int) else number(value, column.half_width(one))


PLACE = (
    "system",
    "model",
    "devices",
    "global batch",
    "options",
)  # columns that identify a point in tables of its parts


def place_of(one: PointResults) -> list[str]:
    """Return the cells of the columns PLACE."""
    point = one.point
    return [one.system, point.model, str(point.devices), str(point.global_batch), ", ".join(one.variant)]


def place_view(lines: Sequence[Sequence[str]], everything: bool, shown: Mapping[str, Shown]) -> View:
    """Return a table whose rows begin with the columns PLACE, which are shown if they differ.

    `shown` has the other columns that are not always shown.
    """
    found = view(
        lines, [Shown.DIFFERS if one in PLACE else shown.get(one, Shown.ALWAYS) for one in lines[0]], everything
    )
    places = sum(title in PLACE for title in found.lines[0])
    return found if everything else found._replace(lines=once_each(found.lines, places))


def points_in_order(results: Sequence[PointResults], title: str, largest_first: bool = False) -> list[PointResults]:
    """Sort points by a column's value, those without one last. Raises RecordError for an unknown title."""
    column = column_of(title, COLUMNS, [one.any for one in results])
    return ordered(results, column.value, largest_first)


def notes(results: Sequence[PointResults]) -> list[tuple[str, list[Finding]]]:
    """Return the name of each point that deviates from the rules, with its deviations."""
    return [(f"{one.system}: {one.point}", found) for one in results if (found := deviations(one))]
