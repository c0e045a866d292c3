"""Servers under load as a table: latencies, throughput, energy per token, and the most load within the limits."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller

from results.points.repeats import PointResults
from results.record.records import Record
from results.record.values import PER_DEVICE, THROUGHPUT, count, devices_text, grouped, value_at
from results.show.tables.fit import Shown
from results.show.tables.point_columns import COLUMNS as POINT_COLUMNS
from results.show.tables.point_columns import PointColumn, status
from results.show.tables.table import COLUMNS as RECORD_COLUMNS
from results.show.tables.table import Column

COLUMNS = (
    Column("system", "system", shown=Shown.ALWAYS),
    Column("server", "serving.server", shown=Shown.DIFFERS),
    Column("version", "serving.version", shown=Shown.WITHIN),
    Column("model", "model", shown=Shown.ALWAYS),
    Column("precision", "precision", shown=Shown.DIFFERS),
    Column("in/out", "sample", shown=Shown.DIFFERS),
    Column("devices", "layout.num_devices", shown=Shown.ALWAYS),
    Column("TP", "layout.tensor_parallel_size", shown=Shown.WITHIN),
    Column("concurrency", "layout.global_batch_size", shown=Shown.ALWAYS),
    Column("tokens/s", THROUGHPUT, ".1f", shown=Shown.ALWAYS),
    Column("tokens/s/device", PER_DEVICE, ".1f"),
    Column("total tokens/s", "metrics.total_tokens_per_s", ".1f"),
    Column("tokens/s/user", "metrics.tokens_per_s_per_user", ".1f"),
    Column("TTFT p50 [s]", "metrics.ttft_p50_s", ".4f"),
    Column("TTFT p99 [s]", "metrics.ttft_p99_s", ".4f", shown=Shown.ALWAYS),
    Column("TPOT p50 [s]", "metrics.tpot_p50_s", ".5f"),
    Column("TPOT p99 [s]", "metrics.tpot_p99_s", ".5f", shown=Shown.ALWAYS),
    Column("goodput [requests/s]", "metrics.goodput_requests_per_s", ".2f"),
    Column("avg power [W]", "energy.avg_power_w", ".1f", shown=Shown.ALWAYS),
    Column("J/output token", "energy.j_per_output_token", ".4f", shown=Shown.ALWAYS),
    Column("J/total token", "energy.j_per_total_token", ".4f"),
    Column("J/request", "energy.j_per_request", ".2f"),
    Column("tokens/Wh", "energy.{unit}_per_wh", ".0f"),
    Column("power source", "energy.power_source", shown=Shown.DIFFERS),
    Column("status", "status", shown=Shown.ALWAYS),
)


OF_DEVICES = ("tokens/s/device", "total tokens/s", "tokens/Wh")  # follow from other columns, and are left out of points


OF_POINTS = (
    PointColumn("system", lambda one: one.system, shown=Shown.ALWAYS),
    PointColumn("model", lambda one: one.point.model, shown=Shown.ALWAYS),
    PointColumn("in/out", lambda one: one.point.sample, shown=Shown.DIFFERS),
    PointColumn("devices", lambda one: one.point.devices, shown=Shown.ALWAYS),
    PointColumn("concurrency", lambda one: one.point.global_batch, shown=Shown.ALWAYS),
    PointColumn("options", lambda one: ", ".join(one.variant), shown=Shown.DIFFERS),
    PointColumn("status", status, shown=Shown.ALWAYS),
    PointColumn("runs", lambda one: len(one.good), shown=Shown.DIFFERS),
    *(
        made
        for one in COLUMNS
        if one.form and one.title not in OF_DEVICES
        for made in (
            PointColumn(one.title, methodcaller("value", one.path), methodcaller("half_width", one.path), one.shown),
            PointColumn(
                "± 95 %", methodcaller("half_width", one.path), methodcaller("half_width", one.path), one.shown
            ),
        )
    ),
    *(one for one in POINT_COLUMNS if one.title in ("sampling ± [%]", "sensor accuracy", "energy")),
)


def are_served(records: Sequence[Record]) -> bool:
    """Check whether all records, of which there are some, are of servers under load."""
    benchmarks = {record.benchmark for record in records}
    of_servers = {record.benchmark for record in records if record.serving}
    return bool(records) and benchmarks == of_servers


def columns_of(records: Sequence[Record]) -> Sequence[Column]:
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
