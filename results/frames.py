"""Runs and points by quantity: values of the catalogue by name, and pandas frames of them.

A frame of points has the ends of the interval of each measured value in NAME_low and NAME_high. Tables, files and
charts are views of these values.
"""

from __future__ import annotations

import re
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from record.arithmetic import ratio
from record.model import Clocks, Record
from record.values import value_at
from results.files.quantities import QUANTITIES
from results.join.energy import ENERGIES_NAME
from results.load import load
from results.points.estimate import Estimate
from results.points.repeats import PointResults, by_point, status_of
from results.verdicts.power_level import lowest_level, power_level
from results.verdicts.quality import accuracy_text, energy_kind, grade, why_left_out, why_not_ranked

if TYPE_CHECKING:
    from pandas import DataFrame

MEASURED = ("metrics.", "energy.", "fill.")  # beginnings of paths to what a run that is not good does not have
# Columns that a frame of runs always has; others follow where a run has them.
RUN = (
    *("system", "benchmark", "model", "precision", "data", "sample", "variant", "status", "error", "comparable"),
    *("not_ranked", "energy_not_ranked"),
    *("devices", "nodes", "global_batch", "micro_batch", "tensor_parallel", "pipeline_parallel", "data_parallel"),
    *("work_unit", "work_per_s", "work_per_s_per_device", "effective_work_per_s", "measured_s", "step_median_s"),
    *("step_p95_s", "tflop_per_s_per_device", "mfu", "input_wait_percent", "io_percent", "comm_percent"),
    *("peak_memory_bytes", "energy_wh", "energy_uncertainty_wh", "work_per_wh", "tflop_per_j", "avg_power_w"),
    *("idle_power_w", "p75_power_w", "p90_power_w", "p99_power_w", "power_level"),
    *("energy_grade", "energy_scope", "created", "node", "git_commit", "job_id", "run_id", "path"),
)
# Columns that a frame of points always has.
POINT = (
    *("system", "benchmark", "model", "precision", "data", "sample", "devices", "global_batch", "variant"),
    *("power_limit_w", "clock_limit_mhz", "status", "runs", "not_ranked", "energy_not_ranked", "energy", "work_unit"),
    *("work_per_s", "work_per_s_per_device", "work_per_wh", "tflop_per_j", "avg_power_w"),
    *("sampling_percent", "sensor_accuracy"),
)
TYPES = {"text": "string", "count": "Int64", "number": "Float64", "answer": "boolean", "time": "datetime64[us, UTC]"}


def _peak_memory(records: Sequence[Record]) -> float | None:
    known = [device.peak_memory_bytes for record in records for device in record.devices]
    return max(filter(None, known), default=None)


def _job_time(record: Record) -> str | None:
    """Return the time that a run's job asked for; the runs of a point share the job in the folder of the first."""
    here = Path(record.file.path).parent
    scripts = [folder / "job.sh" for folder in (here, here.parent) if record.file.path]
    text = next((script.read_text(errors="replace") for script in scripts if script.is_file()), "")
    found = re.search(r"^#SBATCH --time=(\S+)", text, re.MULTILINE)
    return found and found[1]


def _energy_file(record: Record) -> str | None:
    path = Path(record.file.path).with_name(ENERGIES_NAME) if record.file.path else None
    return str(path) if path and path.is_file() else None


def _tasks_per_node(record: Record) -> int | None:
    devices, nodes = record.layout.num_devices, record.layout.num_nodes
    return -(-devices // nodes) if devices and nodes else None


def _threads_per_task(record: Record) -> int | None:
    nodes, tasks = record.provenance.nodes if record.provenance else [], _tasks_per_node(record)
    usable = nodes[0].number("cpus_usable") if nodes else None
    return int(usable // tasks) if usable and tasks else None


# Quantities of a run that are no value of its record.
OF_RUN: Mapping[str, Callable[[Record], Any]] = {
    "job_time": _job_time,
    "run_min": lambda record: ratio(value_at(record, "energy.run_s"), 60),
    "run_s": lambda record: value_at(record, "energy.run_s"),
    "tasks_per_node": _tasks_per_node,
    "threads_per_task": _threads_per_task,
    "workers": lambda record: record.option("data.parallel_files"),
    "batch_per_device": lambda record: ratio(record.layout.global_batch_size, record.layout.num_devices),
    "epochs": lambda record: ratio(
        value_at(record, "metrics.measured_{unit}"), value_at(record, "metrics.{unit}_per_epoch")
    ),
    "iterations": lambda record: record.metrics.number("measured_steps"),
    "compiler": lambda record: record.option("kernels.compile"),
    "energy_file": _energy_file,
    "peak_memory_bytes": lambda record: _peak_memory([record]),
    "energy_grade": grade,
    "power_level": lambda record: (level := power_level(record)) and level.level,
}


def _energy_kinds(point: PointResults) -> str:
    return " and ".join(sorted({kind for record in point.good if (kind := energy_kind(record))}))


def _sampling_percent(point: PointResults) -> float | None:
    """Return the largest half-width of the runs' energies by sampling and counter, in percent."""
    shares = (ratio(one.energy.uncertainty_wh, one.energy.energy_wh) for one in point.good if one.energy)
    return max((100 * share for share in shares if share is not None), default=None)


def _accuracy(point: PointResults) -> str:
    return " and ".join(dict.fromkeys(accuracy_text(record) for record in point.good if record.energy))


def _clocks(point: PointResults) -> list[Clocks]:
    return [channel.clocks for record in point.good for channel in record.sensor_channels]


def _clock_mhz(point: PointResults) -> float | None:
    known = [clocks.mean_mhz for clocks in _clocks(point) if clocks.mean_mhz]
    return statistics.fmean(known) if known else None


def _throttled_percent(point: PointResults) -> float | None:
    """Return the largest share of the window with a throttle reason, over devices and reasons, in percent."""
    known = [clocks.throttled for clocks in _clocks(point) if clocks.throttled is not None]
    return max((percent for reasons in known for percent in reasons.values()), default=0.0) if known else None


# Facts that the runs of a point share, or a run that failed states for it.
SHARED = (
    *("system", "benchmark", "model", "data", "sample", "in/out", "devices", "global_batch", "concurrency"),
    *("precision", "work_unit"),
)
# Other quantities of a point that are not the median of a number of its runs.
OF_POINT: Mapping[str, Callable[[PointResults], Any]] = {
    "variant": lambda point: [text for text in point.variant if text != point.precision],
    "status": lambda point: status_of([*point.good, *point.bad]),
    "runs": lambda point: len(point.good),
    "mfu_percent": lambda point: (mfu := point.value("metrics.mfu")) and 100 * mfu,
    "sampling_percent": _sampling_percent,
    "sensor_accuracy": _accuracy,
    "energy": _energy_kinds,
    "peak_memory_gib": lambda point: (peak := _peak_memory(point.good)) and peak / 2**30,
    "clock_mhz": _clock_mhz,
    "throttled_percent": _throttled_percent,
    "power_limit_w": lambda point: point.limits.power_w,
    "clock_limit_mhz": lambda point: point.limits.clock_mhz,
    "not_ranked": lambda point: str(why) if point.good and (why := why_left_out(point)) else None,
    "energy_not_ranked": lambda point: str(why) if point.good and (why := why_not_ranked(point)) else None,
    "power_level": lambda point: (level := lowest_level(point.good)) and level.words,
    "next_level": lambda point: (level := lowest_level(point.good)) and level.lacking_words,
}
OF_ALL_RUNS = ("not_ranked", "energy_not_ranked", "next_level")  # of a point, which each of its good runs shares


def of_runs(names: Iterable[str], records: Sequence[Record]) -> dict[str, list[Any]]:
    """Return quantities of runs by name; None for a measured value of a run that is not good."""
    of_points: dict[int, dict[str, Any]] = {}
    for point in by_point(records):
        shared = {name: OF_POINT[name](point) for name in OF_ALL_RUNS}
        of_points |= {id(record): shared for record in point.good}
    of_all = {name: [of_points.get(id(record), {}).get(name) for record in records] for name in OF_ALL_RUNS}
    return {name: of_all[name] if name in of_all else list(map(_of_run(name), records)) for name in names}


def _of_run(name: str) -> Callable[[Record], Any]:
    path = QUANTITIES[name].path
    if path.startswith(MEASURED):
        return lambda record: value_at(record, path) if record.is_good else None
    return OF_RUN.get(name) or (lambda record: value_at(record, path))


def of_point(name: str, point: PointResults) -> Any:
    """Return a quantity of a point: of a number of its runs the estimate, or the value alone if it is not above 0."""
    if name in OF_POINT:
        return OF_POINT[name](point)
    path = QUANTITIES[name].path
    return value_at(point.any, path) if name in SHARED else point.estimate(path) or point.value(path)


def frame(*folders: str | Path, meters: Sequence[str | Path] = (), references: Sequence[str | Path] = ()) -> DataFrame:
    """Return a data frame of all runs below some folders, including failed runs.

    An unknown value is missing (`pandas.NA`), never 0. `meters`: files of meters in the supply line. `references`: a
    site's own references of losses. Warns of records that cannot be used. Raises RecordError without any record, and
    for a file of a meter or of references that cannot be used.
    """
    found = load(list(map(Path, folders)), meters=list(map(Path, meters)), references=list(map(Path, references)))
    for sentence in [*map(str, found.skipped), *found.notes]:
        warnings.warn(sentence, stacklevel=2)
    return runs_frame(found.records)


def runs_frame(records: Sequence[Record]) -> DataFrame:
    """Return the data frame of runs: a row for each."""
    return _typed(of_runs(_names(RUN, OF_ALL_RUNS), records), RUN)


def points_frame(results: Sequence[PointResults], others: Iterable[str] | None = None) -> DataFrame:
    """Return the data frame of points: a row for each, with the ends of the 95 % intervals of measured values.

    It has the columns POINT and the `others`; by default all that the points have.
    """
    columns: dict[str, list[Any]] = {}
    for name in _names(POINT, OF_POINT) if others is None else dict.fromkeys([*POINT, *others]):
        cells = [of_point(name, point) for point in results]
        columns[name] = [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
        if name not in OF_POINT and QUANTITIES[name].path.startswith(MEASURED):
            ends = [cell.interval if isinstance(cell, Estimate) else None for cell in cells]
            for end, at in (("low", 0), ("high", 1)):
                columns[f"{name}_{end}"] = [interval[at] if interval else None for interval in ends]
    return _typed(columns, POINT)


def _names(always: Iterable[str], made: Iterable[str]) -> list[str]:
    """Return the names of columns: of some quantities, and of all others of records, each path once."""
    by_path: dict[str, str] = {}
    for name in (*always, *made, *(name for name, quantity in QUANTITIES.items() if quantity.path)):
        by_path.setdefault(QUANTITIES[name].path or name, name)
    return list(by_path.values())


def _typed(columns: Mapping[str, Sequence[Any]], always: Iterable[str]) -> DataFrame:
    """Return columns with the types of their quantities, without those that are empty and not always there."""
    import pandas

    typed = {}
    for name, values in columns.items():
        known = [value for value in values if value not in (None, "", (), [])]
        if not (known or name in always):
            continue
        kind = QUANTITIES[name].kind if name in QUANTITIES else "number"
        if kind in ("text", "time") or any(isinstance(value, str) for value in known):  # a point's level is in words
            values = [", ".join(value) if isinstance(value, list | tuple) else value for value in values]
            values = [None if value is None or (value == "" and name not in always) else str(value) for value in values]
            kind = "time" if kind == "time" else "text"
        series = pandas.Series(values, dtype="object")
        typed[name] = pandas.to_datetime(series, utc=True, errors="coerce") if kind == "time" else series
        typed[name] = typed[name].astype(TYPES[kind])
    return pandas.DataFrame(typed)


def alike(frame: DataFrame, *values: str) -> Iterator[tuple[str, DataFrame]]:
    """Yield the points that one chart of some values may compare, with what they share, in words.

    They have one precision, fill nodes or do not, and may be ranked, or not for one reason; where a value is of energy,
    they have one kind of energy, too. A single point is no comparison, and is left out.
    """
    if frame.empty or not set(values) <= set(frame):
        return
    frame = frame[frame[list(values)].notna().all(axis=1)]
    of_energy = any(QUANTITIES[value].path.startswith("energy.") for value in values)
    keys = ["precision", "not_ranked", *(["copies"] if "copies" in frame else [])]
    keys += ["energy", "energy_not_ranked"] if of_energy else []
    groups = [(key, group) for key, group in frame.groupby(keys, sort=False, dropna=False) if len(group) > 1]
    for key, group in groups:
        shared = {name: value for name, value in zip(keys, key, strict=True) if isinstance(value, str | int)}
        why = [f"not ranked: {shared[name]}" for name in ("not_ranked", "energy_not_ranked") if name in shared][:1]
        words = [str(shared[name]) for name in ("precision", "energy") if name in shared] + why
        words += ["copies that fill nodes"] if "copies" in shared else []
        yield ", ".join(filter(None, words)) if len(groups) > 1 or of_energy or why else "", group


def csv_text(frame: DataFrame) -> str:
    """Return a frame as CSV; a text that a spreadsheet would run as a formula is quoted (OWASP, CSV injection)."""
    texts = frame.select_dtypes("string")
    quoted = texts.apply(lambda column: column.str.replace(r"^([=+\-@\t\r\n])", r"'\1", regex=True))
    quoted = quoted.apply(lambda column: column.str.replace("\r", " "))
    return str(frame.assign(**quoted).to_csv(index=False, lineterminator="\n"))
