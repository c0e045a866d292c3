"""Runs as a pandas data frame: one row per run, typed columns with units in their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from results.record.records import Found, Record, RecordError, find_records
from results.record.stated import with_todays_figures
from results.record.values import value_at

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT, COUNT, NUMBER, ANSWER, TIME = "string", "Int64", "Float64", "boolean", "datetime64[us, UTC]"


class Field(NamedTuple):
    """One column: its name, its type in pandas, and the path of its value in a record."""

    name: str
    kind: str
    path: str = ""
    value: Callable[[Record], Any] | None = None


def _grade(record: Record) -> str | None:
    from results.verdicts.quality import grade

    return grade(record)


def _peak_memory(record: Record) -> float | None:
    known = [one.peak_memory_bytes for one in record.devices]
    return max((value for value in known if value), default=None)


FIELDS = (
    Field("system", TEXT, "system"),
    Field("benchmark", TEXT, "benchmark"),
    Field("model", TEXT, "model"),
    Field("precision", TEXT, "precision"),
    Field("data", TEXT, "data"),
    Field("sample", TEXT, "sample"),
    Field("variant", TEXT, value=lambda record: ", ".join(record.variant)),
    Field("status", TEXT, "status"),
    Field("error", TEXT, "error"),
    Field("comparable", ANSWER, "metrics.comparable"),
    Field("devices", COUNT, "layout.num_devices"),
    Field("nodes", COUNT, "layout.num_nodes"),
    Field("global_batch", COUNT, "layout.global_batch_size"),
    Field("micro_batch", COUNT, "layout.micro_batch_size"),
    Field("tensor_parallel", COUNT, "layout.tensor_parallel_size"),
    Field("pipeline_parallel", COUNT, "layout.pipeline_parallel_size"),
    Field("data_parallel", COUNT, "layout.data_parallel_size"),
    Field("work_unit", TEXT, "work_unit"),
    Field("work_per_s", NUMBER, "metrics.{unit}_per_s"),
    Field("work_per_s_per_device", NUMBER, "metrics.{unit}_per_s_per_device"),
    Field("effective_work_per_s", NUMBER, "metrics.effective_{unit}_per_s"),
    Field("measured_s", NUMBER, "metrics.measured_s"),
    Field("step_median_s", NUMBER, "metrics.step_time_median_s"),
    Field("step_p95_s", NUMBER, "metrics.step_time_p95_s"),
    Field("tflop_per_s_per_device", NUMBER, "metrics.tflops_per_device"),
    Field("mfu", NUMBER, "metrics.mfu"),
    Field("input_wait_percent", NUMBER, "metrics.input_wait_percent"),
    Field("io_percent", NUMBER, "metrics.io_percent"),
    Field("comm_percent", NUMBER, "metrics.comm_percent"),
    Field("peak_memory_bytes", COUNT, value=_peak_memory),
    Field("energy_wh", NUMBER, "energy.energy_wh"),
    Field("energy_uncertainty_wh", NUMBER, "energy.uncertainty_wh"),
    Field("work_per_wh", NUMBER, "energy.{unit}_per_wh"),
    Field("avg_power_w", NUMBER, "energy.avg_power_w"),
    Field("idle_power_w", NUMBER, "energy.idle_power_w"),
    Field("energy_grade", TEXT, value=_grade),
    Field("energy_scope", TEXT, "energy.power_scope"),
    Field("created", TIME, "provenance.created"),
    Field("node", TEXT, "provenance.hostname"),
    Field("git_commit", TEXT, "provenance.git_commit"),
    Field("job_id", TEXT, "slurm.job_id"),
    Field("run_id", TEXT, "run_id"),
    Field("path", TEXT, "file.path"),
)


def frame(*folders: str | Path, meters: Sequence[str | Path] = ()) -> DataFrame:
    """Return a data frame of all runs below some folders, in records, or in histories, including failed runs.

    An unknown value is missing (`pandas.NA`), never 0. `meters`: files of meters in the supply line. Warns of records
    that cannot be used. Raises RecordError without any record, and for a file of a meter that cannot be used.
    """
    import warnings

    from results.history.database import is_database, read

    histories = [path for path in map(Path, folders) if is_database(path)]
    found = find_records(path for path in map(Path, folders) if path not in histories)
    if histories:
        stored = read(histories)
        found = Found([*found.records, *stored.records], [*found.skipped, *stored.skipped])
    for one in found.skipped:
        warnings.warn(str(one), stacklevel=2)
    if not found.records:
        raise RecordError(f"no result below {', '.join(map(str, folders))} can be used")
    records = found.records
    if meters:
        from results.join.meter import read_meter, with_meter

        for path in meters:
            records, notes = with_meter(records, read_meter(Path(path)))
            for note in notes:
                warnings.warn(note, stacklevel=2)
    return frame_of(list(map(with_todays_figures, records)))


def frame_of(records: Sequence[Record]) -> DataFrame:
    """Return the data frame of records."""
    import pandas

    values = {field.name: [_value(field, record) for record in records] for field in FIELDS}
    made = pandas.DataFrame(values, dtype="object")
    for field in FIELDS:
        if field.kind == TIME:
            made[field.name] = pandas.to_datetime(made[field.name], utc=True, errors="coerce")
    return made.astype({field.name: field.kind for field in FIELDS})


def _value(field: Field, record: Record) -> Any:
    value = field.value(record) if field.value else value_at(record, field.path)
    if value is None:
        return None
    kinds: dict[str, Any] = {TEXT: str, COUNT: int, NUMBER: float, ANSWER: bool}
    return kinds.get(field.kind, str)(value)
