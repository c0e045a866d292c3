"""Runs as a pandas data frame: one row per run, typed columns with units in their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from record.values import value_at
from results.files.quantities import QUANTITIES
from results.find.records import Record
from results.load import load
from results.points.estimate import Interval
from results.show.tables.cells import Cell, Table, is_known, is_number, sort_value, text_of

if TYPE_CHECKING:
    from pandas import DataFrame

# Types in pandas, by kind of quantity.
TYPES = {
    "text": ("string", str),
    "count": ("Int64", int),
    "number": ("Float64", float),
    "answer": ("boolean", bool),
    "time": ("datetime64[us, UTC]", str),
}


def _grade(record: Record) -> str | None:
    from results.verdicts.quality import grade

    return grade(record)


def _level(record: Record) -> int | None:
    from results.verdicts.power_level import power_level

    level = power_level(record)
    return level.level if level else None


def _peak_memory(record: Record) -> float | None:
    known = [one.peak_memory_bytes for one in record.devices]
    return max((value for value in known if value), default=None)


FIELDS = (
    *("system", "benchmark", "model", "precision", "data", "sample", "variant", "status", "error", "comparable"),
    *("devices", "nodes", "global_batch", "micro_batch", "tensor_parallel", "pipeline_parallel", "data_parallel"),
    *("work_unit", "work_per_s", "work_per_s_per_device", "effective_work_per_s", "measured_s", "step_median_s"),
    *("step_p95_s", "tflop_per_s_per_device", "mfu", "input_wait_percent", "io_percent", "comm_percent"),
    *("peak_memory_bytes", "energy_wh", "energy_uncertainty_wh", "work_per_wh", "avg_power_w", "idle_power_w"),
    *("p75_power_w", "p90_power_w", "p99_power_w", "power_level"),
    *("energy_grade", "energy_scope", "created", "node", "git_commit", "job_id", "run_id", "path"),
)
# Those that are no value of a record.
MADE: dict[str, Callable[[Record], Any]] = {
    "variant": lambda record: ", ".join(record.variant),
    "peak_memory_bytes": _peak_memory,
    "energy_grade": _grade,
    "power_level": _level,
}


def frame(*folders: str | Path, meters: Sequence[str | Path] = (), references: Sequence[str | Path] = ()) -> DataFrame:
    """Return a data frame of all runs below some folders, including failed runs.

    An unknown value is missing (`pandas.NA`), never 0. `meters`: files of meters in the supply line. `references`: a
    site's own references of losses. Warns of records that cannot be used. Raises RecordError without any record, and
    for a file of a meter or of references that cannot be used.
    """
    import warnings

    found = load(list(map(Path, folders)), meters=list(map(Path, meters)), references=list(map(Path, references)))
    for sentence in [*map(str, found.skipped), *found.notes]:
        warnings.warn(sentence, stacklevel=2)
    return frame_of(found.records)


def frame_of(records: Sequence[Record]) -> DataFrame:
    """Return the data frame of records."""
    import pandas

    kinds = {name: QUANTITIES[name].kind for name in FIELDS}
    values = {name: [_value(name, record) for record in records] for name in FIELDS}
    made = pandas.DataFrame(values, dtype="object")
    for name in FIELDS:
        if kinds[name] == "time":
            made[name] = pandas.to_datetime(made[name], utc=True, errors="coerce")
    return made.astype({name: TYPES[kind][0] for name, kind in kinds.items()})


def table_frame(table: Table) -> DataFrame:
    """Return the data frame of a table: a column of numbers alone has their type, any other is text."""
    import pandas

    columns = zip(column_names(table), zip(*table.rows, strict=True), strict=True)
    return pandas.DataFrame(
        {name: pandas.Series(_typed(cells), dtype="object") for name, cells in columns}
    ).convert_dtypes()


def _typed(cells: Sequence[Cell]) -> list[Any]:
    known = filter(is_known, cells)
    form = sort_value if all(is_number(cell) and not isinstance(cell, Interval) for cell in known) else text_of
    return [form(cell) if is_known(cell) else None for cell in cells]


def column_names(table: Table) -> list[str]:
    """Return the titles of a table, each once: that of an interval with the title of its number."""
    titles = table.titles
    return [f"{before} {title}" if title.startswith("±") else title for before, title in pairwise(["", *titles])]


def _value(name: str, record: Record) -> Any:
    quantity = QUANTITIES[name]
    value = MADE[name](record) if name in MADE else value_at(record, quantity.path)
    return None if value is None else TYPES[quantity.kind][1](value)
