"""Servers under load as a table: latencies, throughput, energy per token, and the most load within the limits."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from record.values import count, devices_text, grouped, value_at
from results.files.quantities import QUANTITIES, Quantity, Shown, quantities
from results.find.records import Record
from results.points.repeats import PointResults
from results.show.tables.point_columns import COLUMNS as POINT_COLUMNS
from results.show.tables.point_columns import NOT_RANKED, PointColumn, columns_of_points, with_interval
from results.show.tables.table import COLUMNS as RECORD_COLUMNS
from results.show.tables.whole_system import CELLS
from results.show.tables.whole_system import NAMES as POWER_NAMES

COLUMNS = quantities(
    *("system", "server", "version", "model", "precision", "in/out", "devices", "tensor_parallel", "concurrency"),
    *("acceptance_stated", "acceptance_measured"),
    *("work_per_s", "work_per_s_per_device", "total_per_s", "per_user", "ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99"),
    *("cache_hit", "possible_cache_hit", "turn_tokens_per_s", "cached_tokens", "fresh_tokens"),
    *("ttft_cached_below_50", "ttft_cached_50_to_90", "ttft_cached_from_90"),
    *(
        "goodput",
        "avg_power_w",
        "j_per_output_token",
        "j_per_total_token",
        "j_per_request",
        "j_per_token_read",
        "j_per_token_written",
        "perplexity",
    ),
    *(QUANTITIES["work_per_wh"]._replace(shown=Shown.MORE), "work_per_s_per_kw"),
    *(*POWER_NAMES, "power_source", *NOT_RANKED, "status"),
)
# These follow from other columns, and are left out of points.
OF_DEVICES = (
    "metrics.{unit}_per_s_per_device",
    "metrics.total_{unit}_per_s",
    "energy.{unit}_per_wh",
)
OF_POINTS = (
    *columns_of_points("system", "model", "in/out", "devices", "concurrency"),
    PointColumn(QUANTITIES["variant"], attrgetter("variant")),
    *columns_of_points("status", "runs"),
    *(made for one in COLUMNS if one.form and one.path not in OF_DEVICES for made in with_interval(one)),
    *columns_of_points("sampling_percent", "sensor_accuracy", "energy", *CELLS, *NOT_RANKED),
)


def are_served(records: Sequence[Record]) -> bool:
    """Check whether all records, of which there are some, are of servers under load."""
    benchmarks = {record.benchmark for record in records}
    of_servers = {record.benchmark for record in records if record.serving}
    return bool(records) and benchmarks == of_servers


def columns_of(records: Sequence[Record]) -> Sequence[Quantity]:
    """Return the columns that fit the records."""
    return COLUMNS if are_served(records) else RECORD_COLUMNS


def point_columns_of(results: Sequence[PointResults]) -> Sequence[PointColumn]:
    """Return the columns of points that fit the results."""
    return OF_POINTS if are_served([record for one in results for record in [*one.good, *one.bad]]) else POINT_COLUMNS


def within_limits(results: Sequence[PointResults]) -> list[str]:
    """Return for each setup the most requests in flight whose 99th percentiles keep the limits, a sentence each.

    A load whose runs all failed keeps none. Records of other clients have no limits, and no sentence.
    """
    served = [one for one in results if one.good and value_at(one.any, "serving.slo")]
    failed = [one for one in results if not one.good]
    found = []
    for (system, model, sample, devices, variant), points in grouped(served, _setup).items():
        limits = {name: value_at(points[0].any, f"metrics.slo_{name}_s") for name in ("ttft", "tpot")}
        slo = ", ".join(f"{name.upper()} p99 {limit_s or 0:g} s" for name, limit_s in limits.items())
        keep = f"keep the limits of {value_at(points[0].any, 'serving.slo')} ({slo})"
        streams = [one.point.global_batch for one in points if one.keeps_limits]
        places = [(system, model, each, devices) for each in (sample, "")]  # a run that failed early has no sample
        tried = [one.point.global_batch for one in [*points, *failed] if _setup(one)[:4] in places]
        if (value_at(points[0].any, "config.load.rate_per_s") or 0.0) > 0:
            words = f"requests at this rate {'' if streams else 'do not '}{keep}"
        elif not streams:
            words = f"none of its loads {keep}"
        elif max(streams) < max(tried):
            words = f"up to {count(max(streams), 'request')} in flight {keep}"
        else:
            words = f"{count(max(streams), 'request')} in flight, its highest load, {keep}"
        found.append(f"{system}, {model}, {sample}, {devices_text(devices)}, {', '.join(variant)}: {words}")
    return found


def _setup(one: PointResults) -> tuple[str, str, str, int, tuple[str, ...]]:
    return one.system, one.point.model, one.point.sample, one.point.devices, one.variant
