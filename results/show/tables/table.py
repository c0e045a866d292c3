"""Records as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jpwr.messages import near
from results.record.quantities import QUANTITIES, Quantity, Shown, quantities
from results.record.records import Record, RecordError
from results.record.values import devices_text, sort_key, value_at
from results.show.tables.cells import Cell, Table, text_of
from results.workloads import batch_text

COLUMNS = quantities(
    *("system", "model", "precision", "data", "sample", "comparable", "devices", "global_batch", "micro_batch"),
    *("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "data_parallel", "copies"),
    *("variant", "power_limit_w", "clock_limit_mhz", "work_per_s", "slowest_copy", "work_per_s_per_device"),
    *("effective_work_per_s", "epcc_work_per_s", "input_wait_percent", "io_percent", "comm_percent"),
    *("tflop_per_s_per_device", "achievable_percent", "avg_power_w", "energy_wh_per_device", "work_per_wh"),
    *("slurm_wh", "power_source", "status"),
)
# The titles of the original suite's table of its GPT benchmark, for those who keep its spreadsheets.
CARAML_TITLES = {
    "JobID": "job_id",
    "System": "system",
    "Queue": "partition",
    "Model": "benchmark",
    "ModelSize": "model",
    "Dataset": "data",
    "Nodes": "nodes",
    "Devices": "devices",
    "GlobalBatchSize": "global_batch",
    "PipelineParallel": "pipeline_parallel",
    "TensorParallel": "tensor_parallel",
    "DataParallel": "data_parallel",
    "Time/iteration(s)": "step_median_s",
    "{Unit}/second": "work_per_s",
    "Avg_TFLOPs/GPU": "tflop_per_s_per_device",
    "Energy/Device(Wh)": "energy_wh_per_device",
    "Status": "status",
}
CARAML_COLUMNS = [
    QUANTITIES[name]._replace(title=title, unit="", shown=Shown.MORE) for title, name in CARAML_TITLES.items()
]


def name(record: Record) -> str:
    """Return the system, model and devices of a record, as text."""
    small = f", {record.get('sample')}" if value_at(record, "metrics.comparable") is False else ""
    return f"{record['system']}, {record['model']}{small}, {devices_text(value_at(record, 'layout.num_devices'))}"


def record_table(records: Sequence[Record], columns: Sequence[Quantity] = COLUMNS, wanted: Sequence[str] = ()) -> Table:
    """Return a row per record; the columns with the titles `wanted` are always needed."""
    rows = [[_value(record, column) for column in columns] for record in records]
    return Table(always(wanted, columns, records), rows).of(record["work_unit"] for record in records)


def _value(record: Record, column: Quantity) -> Any:
    """Return a record's value for a column; None for a measured value of a run that is not good."""
    is_measured = column.path.startswith(("metrics.", "energy."))
    return None if is_measured and record["status"] != "ok" else value_at(record, column.path)


def failures(records: Sequence[Record]) -> list[str]:
    """Return a sentence on each record whose status is not ok."""
    return [
        f"{name(record)}, {batch_text(record['benchmark'], value_at(record, 'layout.global_batch_size'))}: "
        f"{record['status']}: {record.get('error', '')}"
        for record in sorted(records, key=sort_key)
        if record["status"] != "ok"
    ]


Row = TypeVar("Row")


def column_of(title: str, columns: Sequence[Quantity], records: Sequence[Record]) -> int:
    """Return the index of the column with a title or path; raises RecordError if there is none, or more than one."""
    units = sorted({record["work_unit"] for record in records})

    def names(column: Quantity) -> list[str]:
        return list(dict.fromkeys([*(column.of(unit).heading for unit in units), column.heading, column.path]))

    matching = [at for at, column in enumerate(columns) if title.strip() in names(column)]
    if not matching:
        titles = dict.fromkeys(names(column)[0] for column in columns)
        raise RecordError(f"there is no column {title.strip()!r}: {near(title.strip(), titles)}")
    if len(matching) > 1:
        raise RecordError(f"{len(matching)} columns are called {title.strip()!r}: choose another")
    return matching[0]


def always(wanted: Sequence[str], columns: Sequence[Quantity], records: Sequence[Record]) -> list[Quantity]:
    """Return columns, of which those with the titles `wanted` are always shown."""
    chosen = [column_of(title, columns, records) for title in wanted]
    return [one._replace(shown=Shown.ALWAYS) if at in chosen else one for at, one in enumerate(columns)]


def ordered(rows: Sequence[Row], value: Callable[[Row], Any], largest_first: bool) -> list[Row]:
    """Sort by a value of each, texts after numbers, those without a value last."""
    values = [value(row) for row in rows]
    known = [(isinstance(one, str), one, row) for one, row in zip(values, rows, strict=True) if one not in (None, "")]
    known.sort(key=lambda one: one[:2], reverse=largest_first)
    return [row for *_, row in known] + [row for one, row in zip(values, rows, strict=True) if one in (None, "")]


def in_order(
    records: Sequence[Record], title: str, largest_first: bool = False, columns: Sequence[Quantity] = COLUMNS
) -> list[Record]:
    """Sort records by a column's value; those without a value are last.

    Raises RecordError for an unknown column.
    """
    path = columns[column_of(title, columns, records)].path
    return ordered(records, lambda record: value_at(record, path), largest_first)


def select(records: Sequence[Record], conditions: Sequence[str]) -> list[Record]:
    """Return the records that meet every condition, such as `system=A100`: the title of a column and its text.

    Raises RecordError for an unknown column.
    """
    chosen = list(records)
    for condition in conditions:
        title, sign, wanted = condition.partition("=")
        if not sign:
            raise RecordError(f"{condition!r} is not a condition: write COLUMN=TEXT, such as devices=2")
        column = COLUMNS[column_of(title, COLUMNS, records)]
        chosen = [
            record
            for record in chosen
            if wanted.strip() in (str(value_at(record, column.path)), text_of(_value(record, column), column.form))
        ]
    return chosen


def pivot_table(records: Sequence[Record], path: str) -> Table:
    """Return one value of one system and model: a row per number of devices, a column per global batch size.

    A failed point has its status. Raises RecordError if two records have the same devices and batch.
    """
    cells: dict[tuple[int, int], Cell] = {}
    for record in records:
        place = (
            value_at(record, "layout.num_devices") or 0,
            value_at(record, "layout.global_batch_size") or 0,
        )
        if place in cells:
            raise RecordError(
                f"two records have {devices_text(place[0])} and batch {place[1]}: choose one system, model and set of "
                "options with --filter"
            )
        value = value_at(record, path)
        good = record["status"] == "ok" and isinstance(value, int | float)
        cells[place] = value if good else record["status"]
    if "ok" in cells.values():
        raise RecordError(f"--pivot {path}: a good record has no such number; try metrics.{{unit}}_per_s")
    devices, batches = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    columns = [Quantity("devices"), *(Quantity(f"batch {batch}", form=".6g") for batch in batches)]
    return Table(columns, [[number, *(cells.get((number, batch)) for batch in batches)] for number in devices])
