"""Records as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from record.values import devices_text, sort_key, value_at
from results.files.quantities import QUANTITIES, Quantity, Shown, quantities
from results.files.workloads import batch_text
from results.find.records import Record, RecordError
from results.points.repeats import by_point
from results.show.tables.cells import Cell, Table
from results.show.tables.point_columns import NOT_RANKED, VALUES
from results.show.tables.whole_system import NAMES as POWER_NAMES
from results.show.tables.whole_system import OF_RECORDS

COLUMNS = quantities(
    *("system", "model", "precision", "data", "sample", "comparable", "devices", "global_batch", "micro_batch"),
    *("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "data_parallel", "copies"),
    *("variant", "power_limit_w", "clock_limit_mhz", "work_per_s", "slowest_copy", "work_per_s_per_device"),
    *("time_to_loss_s", "energy_to_loss_wh", "work_to_loss", "target_loss"),
    *("effective_work_per_s", "epcc_work_per_s", "input_wait_percent", "io_percent", "comm_percent"),
    *("checkpoint_bytes", "checkpoint_write_s", "checkpoint_write_gb_per_s", "checkpoint_restore_s"),
    *("checkpoint_restore_gb_per_s", "checkpoint_write_wh", "checkpoint_write_uncertainty_wh"),
    *("checkpoint_restore_wh", "checkpoint_restore_uncertainty_wh"),
    *("tflop_per_s_per_device", "achievable_percent", "avg_power_w", "energy_wh_per_device", "work_per_wh"),
    *("work_per_s_per_kw", *POWER_NAMES, "slurm_wh", "power_source"),
    *("learns", "learnt_loss", "reference_loss", "most_loss", *NOT_RANKED, "status"),
)
# The original suite's table of its GPT benchmark, for those who keep its spreadsheets.
CARAML_COLUMNS = [
    one._replace(title=one.original, unit="", shown=Shown.MORE) for one in QUANTITIES.values() if one.original
]


def name(record: Record) -> str:
    """Return the system, model and devices of a record, as text."""
    small = f", {record.sample}" if value_at(record, "metrics.comparable") is False else ""
    return f"{record.system}, {record.model}{small}, {devices_text(value_at(record, 'layout.num_devices'))}"


def record_table(records: Sequence[Record], columns: Sequence[Quantity] = COLUMNS) -> Table:
    """Return a row per record."""
    points = {id(record): point for point in by_point(records) for record in point.good}
    of_points = {column: VALUES[name] for name, column in QUANTITIES.items() if name in NOT_RANKED}
    rows = [
        [
            (of_points[column](point) if (point := points.get(id(record))) else None)
            if column in of_points
            else _value(record, column)
            for column in columns
        ]
        for record in records
    ]
    return Table(columns, rows, units=units_of(records))


def units_of(records: Iterable[Record]) -> list[str]:
    """Return the units of work of records, each once."""
    return list(dict.fromkeys(record.work_unit for record in records))


def _value(record: Record, column: Quantity) -> Any:
    """Return a record's value for a column; None for a measured value of a run that is not good."""
    if cell := OF_RECORDS.get(column):
        return cell([record]) if record.is_good else None
    is_measured = column.path.startswith(("metrics.", "energy."))
    return None if is_measured and not record.is_good else value_at(record, column.path)


def failures(records: Sequence[Record]) -> list[str]:
    """Return a sentence on each record whose status is not ok."""
    return [
        f"{name(record)}, {batch_text(record.benchmark, value_at(record, 'layout.global_batch_size'))}: "
        f"{record.status}: {record.error}"
        for record in sorted(records, key=sort_key)
        if not record.is_good
    ]


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
        good = record.is_good and isinstance(value, int | float)
        cells[place] = value if good else record.status
    if "ok" in cells.values():
        raise RecordError(f"--pivot {path}: a good record has no such number; try metrics.{{unit}}_per_s")
    devices, batches = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    columns = [Quantity("devices"), *(Quantity(f"batch {batch}", form=".6g") for batch in batches)]
    return Table(columns, [[number, *(cells.get((number, batch)) for batch in batches)] for number in devices])
