"""Tables of the page: an explanation of each column, few digits, and the status last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from results.files.quantities import Quantity
from results.points.repeats import PointResults
from results.show.tables.cells import STATUS, Cell, Table, for_page, is_number, sort_value, text_of
from results.show.tables.table import LONG, point_table

LONG_TEXT = 24  # characters: a longer text is wrapped


class Heading(NamedTuple):
    """Title of a column with its explanation; `kind` is its class in the style sheet."""

    title: str
    help: str
    kind: str
    column: Quantity


class Grid(NamedTuple):
    """A table as the template draws it: each cell has its text and, if it is a number, what it is sorted by."""

    headings: list[Heading]
    rows: list[tuple[tuple[str, str | None], ...]]
    bad: list[bool]  # rows whose status is not ok


def grid_of(table: Table) -> Grid:
    """Return a table for the page: with its status last, and few digits in columns of numbers."""
    order = sorted(range(len(table.columns)), key=lambda at: table.columns[at].title == STATUS)
    table = table.chosen(order)
    headings, columns = [], []
    for at, (column, title) in enumerate(zip(table.columns, table.titles, strict=True)):
        cells = [row[at] for row in table.rows]
        texts = [text_of(cell, column.form) for cell in cells]
        kind = _kind(column, cells, texts)
        if kind == "number":
            texts = [text_of(cell, column.form, for_page) for cell in cells]
        headings.append(Heading(title, column.help, kind, column))
        values = map(sort_value, cells)
        keys = [f"{value:.9g}" if isinstance(value, int | float) else None for value in values]
        columns.append(list(zip(texts, keys, strict=True)))
    has_status = table.columns[-1].title == STATUS
    return Grid(headings, list(zip(*columns, strict=True)), [has_status and row[-1] != "ok" for row in table.rows])


def _kind(column: Quantity, cells: Sequence[Cell], texts: Sequence[str]) -> str:
    known = [cell for cell, text in zip(cells, texts, strict=True) if text]
    if column.title == STATUS:
        return "status"
    if known and all(map(is_number, known)):
        return "number"
    return "long" if max(map(len, texts), default=0) > LONG_TEXT else "text"


def points_table(results: Sequence[PointResults]) -> Table:
    """Return all points of a workload."""
    return point_table(results).filled(without=("model", "data", "in/out", LONG))
