"""Tables of the page: an explanation of each column, few digits, and the status last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from record.values import PER_DEVICE, WORK
from results.files.quantities import QUANTITIES, Quantity, quantities
from results.points.repeats import PointResults
from results.points.sensors import accuracy_text
from results.show.tables.cells import STATUS, Amount, Cell, Table, for_page, is_number, sort_value, text_of
from results.show.tables.point_columns import HALF, sampling_percent
from results.show.tables.points import point_table
from results.show.tables.summary import by_system_and_precision, precision_text
from results.show.tables.table import units_of
from results.show.tables.whole_system import LONG, level_cell
from results.verdicts.quality import energy_kind, why_not_ranked
from results.verdicts.ranking import fastest

LONG_TEXT = 24  # characters: a longer text is wrapped
PERCENT = QUANTITIES["±"]


class Heading(NamedTuple):
    """Title of a column with its explanation; `kind` is its class in the style sheet."""

    title: str
    help: str
    kind: str


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
        headings.append(Heading(title, column.help, kind))
        columns.append(list(zip(texts, map(_key, cells), strict=True)))
    has_status = table.columns[-1].title == STATUS
    return Grid(headings, list(zip(*columns, strict=True)), [has_status and row[-1] != "ok" for row in table.rows])


def _kind(column: Quantity, cells: Sequence[Cell], texts: Sequence[str]) -> str:
    known = [cell for cell, text in zip(cells, texts, strict=True) if text]
    if column.title == STATUS:
        return "status"
    if known and all(map(is_number, known)):
        return "number"
    return "long" if max(map(len, texts), default=0) > LONG_TEXT else "text"


def _key(cell: Cell) -> str | None:
    value = sort_value(cell)
    return f"{value:.9g}" if isinstance(value, int | float) else None


def help_of(title: str) -> str:
    """Return the explanation of a quantity by its title; empty for one that explains itself."""
    return next((one.help for one in QUANTITIES.values() if one.title == title), "")


def percent(part: float | None, of: float | None) -> float | None:
    """Return a share in percent; None without one."""
    return 100 * part / of if part is not None and of else None


def points_table(results: Sequence[PointResults]) -> Table:
    """Return all points of a workload; intervals are in percent of the number before them."""
    table = point_table(results)
    columns = [PERCENT._replace(shown=one.shown) if one.title == HALF else one for one in table.columns]
    rows = [list(map(_without_half, columns, row, [None, *row])) for row in table.rows]
    return replace(table, columns=columns, rows=rows).filled(without=("model", "data", "in/out", LONG))


def _without_half(column: Quantity, cell: Cell, before: Cell) -> Cell:
    """Return a cell without the half-width that its digits follow from, or the half-width in percent."""
    if not isinstance(cell, Amount):
        return cell
    return (
        percent(cell.value, before.value)
        if column.title == PERCENT.title and isinstance(before, Amount)
        else Amount(cell.value)
    )


def systems_table(workloads: Sequence[tuple[str, Sequence[PointResults]]]) -> Table:
    """Return each system in each precision at its best points, with where its energy is measured and how accurately."""
    columns = quantities(
        *("workload", "system", "precision", "work_per_s_per_device", "±", "mfu_percent", "work_per_wh", "±"),
        *("power_per_device", "sampling_percent", "measured at", "power_level", "sensor_accuracy"),
        *("runs", "status"),
    )
    rows: list[list[Cell]] = []
    for title, results in workloads:
        for system, precision, mine in by_system_and_precision(results):
            speed = fastest(mine)
            work = fastest([one for one in mine if not why_not_ranked(one)], WORK) or fastest(mine, WORK)
            rows.append(
                [
                    *(title, system, precision_text(precision, mine)),
                    *_with_interval(speed, PER_DEVICE),
                    100 * mfu if speed and (mfu := speed.value("metrics.mfu")) else None,
                    *_with_interval(work, WORK),
                    Amount(power_per_device_w(work)) if work else None,
                    sampling_percent(work) if work else None,
                    energy_kind(work.any) if work else None,
                    level_cell(work.good) if work else None,
                    accuracy_text(work.any) if work else None,
                    min((len(one.good) for one in (speed, work) if one), default=0),
                    _status(mine),
                ]
            )
    table = Table(columns, rows, units=units_of(results[0].any for _, results in workloads))
    return table.filled(without=("workload",) if len(workloads) == 1 else ())


def _status(results: Sequence[PointResults]) -> str:
    good, bad = (sum(len(getattr(one, side)) for one in results) for side in ("good", "bad"))
    return f"{bad} of {good + bad} failed" if bad else "ok"


def _with_interval(one: PointResults | None, path: str) -> list[Cell]:
    return [Amount(one.value(path)), percent(one.half_width(path), one.value(path))] if one else [None, None]


def power_per_device_w(one: PointResults) -> float | None:
    """Return the average power over a point's window per device, in watts."""
    power_w = one.value("energy.avg_power_w")
    return power_w / one.point.devices if power_w and one.point.devices else None
