"""Runs and points as tables for readers: the columns of training or of servers, in the order of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from record.values import count, devices_text, grouped, value_at
from results.files.quantities import QUANTITIES, Quantity, Shown, quantities
from results.find.records import Record, RecordError
from results.frames import of_point, of_runs
from results.points.facts import place_of, sort_key
from results.points.repeats import PointResults
from results.show.tables.cells import Cell, Table

POWER = ("p75_power_w", "p90_power_w", "p99_power_w", "power_level", "next_level")
REASONS = ("not_ranked", "energy_not_ranked", "status")
LONG = QUANTITIES["next_level"].title  # of a column that fits no page
TRAINED = (
    *("system", "model", "precision", "data", "sample", "comparable", "devices", "global_batch", "micro_batch"),
    *("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "data_parallel", "copies"),
    *("variant", "power_limit_w", "clock_limit_mhz", "work_per_s", "slowest_copy", "work_per_s_per_device"),
    *("time_to_loss_s", "energy_to_loss_wh", "work_to_loss", "target_loss"),
    *("effective_work_per_s", "epcc_work_per_s", "input_wait_percent", "io_percent", "comm_percent"),
    *("checkpoint_bytes", "checkpoint_write_s", "checkpoint_write_gb_per_s", "checkpoint_restore_s"),
    *("checkpoint_restore_gb_per_s", "checkpoint_write_wh", "checkpoint_write_uncertainty_wh"),
    *("checkpoint_restore_wh", "checkpoint_restore_uncertainty_wh"),
    *("tflop_per_s_per_device", "achievable_percent", "avg_power_w", "energy_wh_per_device", "work_per_wh"),
    *("tflop_per_j", "work_per_s_per_kw", *POWER, "slurm_wh", "power_source"),
    *("learns", "learnt_loss", "reference_loss", "most_loss", *REASONS),
)
SERVED = (
    *("system", "server", "version", "model", "precision", "in/out", "devices", "tensor_parallel", "concurrency"),
    *("acceptance_stated", "acceptance_measured"),
    *("work_per_s", "work_per_s_per_device", "total_per_s", "per_user", "ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99"),
    *("memory_bandwidth_percent", "cache_hit", "possible_cache_hit", "turn_tokens_per_s", "cached_tokens"),
    *("fresh_tokens",),
    *("goodput", "avg_power_w", "j_per_output_token", "j_per_total_token", "j_per_request", "j_per_token_read"),
    *("j_per_token_written", "perplexity", "work_per_s_per_kw", *POWER, "power_source", *REASONS),
)
# The original suite's tables of GPT and of images, for those who keep its spreadsheets.
ORIGINAL = [name for name, quantity in QUANTITIES.items() if quantity.original]
NOT_OF = {
    "tokens": {
        *("run_s", "tasks_per_node", "threads_per_task", "workers", "batch_per_device", "epochs", "precision"),
        *("compiler", "compiler_mode", "channels_last"),
    },
    "images": {
        *("job_time", "run_min", "model", "pipeline_parallel", "tensor_parallel", "data_parallel", "iterations"),
        *("step_median_s", "tflop_per_s_per_device"),
    },
}
# Columns of single runs alone.
OF_A_RUN = ("energy_wh_per_device", "slurm_wh", "learnt_loss", "reference_loss", "most_loss")
OF_POINTS = (
    *("spread_percent", "mfu_percent", "sampling_percent", "sensor_accuracy", "energy", "peak_memory_gib", *POWER),
    *("clock_mhz", "throttled_percent", "power_limited_percent"),
    *REASONS[:-1],
)


def _of_points(names: Sequence[str], data: str, batch: str) -> list[str]:
    """Return the columns of points for those of runs: the place, each measured value, and how well the runs agree."""
    place = ("system", "model", data, "devices", batch, "precision", "variant", "power_limit_w", "clock_limit_mhz")
    measured = [name for name in names if QUANTITIES[name].form and name not in OF_A_RUN]
    return list(dict.fromkeys([*place, "status", "runs", *measured, *OF_POINTS]))


TRAINED_POINTS, SERVED_POINTS = _of_points(TRAINED, "data", "global_batch"), _of_points(SERVED, "in/out", "concurrency")
# Columns that identify a point in tables of its parts.
PLACE = [
    one._replace(shown=Shown.DIFFERS) for one in quantities("system", "model", "devices", "global_batch", "variant")
]


def are_served(records: Sequence[Record]) -> bool:
    """Check whether all records, of which there are some, are of servers under load."""
    benchmarks = {record.benchmark for record in records}
    of_servers = {record.benchmark for record in records if record.serving}
    return bool(records) and benchmarks == of_servers


def record_table(records: Sequence[Record], names: Sequence[str] = ()) -> Table:
    """Return a row per record, by default with the columns that fit the records."""
    names = names or (SERVED if are_served(records) else TRAINED)
    columns = of_runs(dict.fromkeys(names), records)
    rows = [list(row) for row in zip(*(columns[name] for name in names), strict=True)]
    return Table(quantities(*names), rows, units=units_of(records))


def original_table(records: Sequence[Record]) -> Table:
    """Return a row per record with the columns of the original suite, if all work is tokens or images of that table."""
    left_out = set.intersection(*(NOT_OF.get(unit, set()) for unit in units_of(records)))
    table = record_table(records, [name for name in ORIGINAL if name not in left_out])
    columns = [one._replace(title=one.original, unit="", shown=Shown.MORE) for one in table.columns]
    return Table(columns, table.rows, units=table.units)


def point_table(results: Sequence[PointResults]) -> Table:
    """Return a row per point: medians, and the half-widths of the intervals of measured values."""
    served = are_served([record for point in results for record in (*point.good, *point.bad)])
    names = SERVED_POINTS if served else TRAINED_POINTS
    rows = [[of_point(name, point) for name in names] for point in results]
    return Table(quantities(*names), rows, units=units_of(point.any for point in results))


def units_of(records: Iterable[Record]) -> list[str]:
    """Return the units of work of records, each once."""
    return list(dict.fromkeys(record.work_unit for record in records))


def failures(records: Sequence[Record]) -> list[str]:
    """Return a sentence on each record whose status is not ok."""
    bad = [record for record in sorted(records, key=sort_key) if not record.is_good]
    return [f"{place_of(record)}: {record.status}: {record.error}" for record in bad]


def pivot_table(records: Sequence[Record], path: str) -> Table:
    """Return one value of one system and model: a row per number of devices, a column per global batch size.

    A failed point has its status. Raises RecordError if two records have the same devices and batch, and if none has
    such a number.
    """
    cells: dict[tuple[int, int], Cell] = {}
    for record in records:
        devices, batch = record.layout.num_devices or 0, record.layout.global_batch_size or 0
        if (devices, batch) in cells:
            raise RecordError(
                f"two records have {devices_text(devices)} and batch {batch}: choose one system, model and set of "
                "options with --filter"
            )
        value = value_at(record, path)
        cells[devices, batch] = value if record.is_good and isinstance(value, int | float) else record.status
    if "ok" in cells.values():
        raise RecordError(f"--pivot {path}: a good record has no such number; try metrics.{{unit}}_per_s")
    rows, batches = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    columns = [Quantity("devices"), *(Quantity(f"batch {batch}", form=".6g") for batch in batches)]
    return Table(columns, [[devices, *(cells.get((devices, batch)) for batch in batches)] for devices in rows])


def place_cells(one: PointResults) -> list[Cell]:
    """Return the cells of the columns PLACE."""
    point = one.point
    return [one.system, point.model, point.devices, point.global_batch, one.variant]


def within_limits(results: Sequence[PointResults]) -> list[str]:
    """Return for each setup of a server the most requests in flight whose 99th percentiles keep the limits, as text."""
    served = [one for one in results if one.good and value_at(one.any, "serving.slo")]
    setups = grouped(served, lambda one: (one.system, *one.point[1:5], one.variant))
    found = []
    for (system, model, _, sample, devices, variant), points in setups.items():
        record = points[0].any
        limits_s = {name: value_at(record, f"metrics.slo_{name}_s") or 0.0 for name in ("ttft", "tpot")}
        slo = ", ".join(f"{name.upper()} p99 {limit_s:g} s" for name, limit_s in limits_s.items())
        most = max((one.point.global_batch for one in points if one.keeps_limits), default=0)
        load = f"up to {count(most, 'request')} in flight" if most else "none of its loads"
        load = "requests at this rate" if most and record.option("load.rate_per_s") else load
        setup = f"{system}, {model}, {sample}, {devices_text(devices)}, {', '.join(variant)}"
        found.append(f"{setup}: {load} keep the limits of {record.serving.slo} ({slo})")
    return found
