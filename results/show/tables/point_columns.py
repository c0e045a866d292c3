"""Columns of points: a value of each, and the half-width of its interval."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import NamedTuple

from results.points.operating import limited_percent
from results.points.repeats import PointResults
from results.points.sensors import accuracy_text, sampling_share
from results.record.model import Clocks
from results.record.parts import sensor_channels
from results.record.values import PER_DEVICE, THROUGHPUT, WORK
from results.show.tables.fit import Shown
from results.verdicts.quality import energy_kind


def status(results: PointResults) -> str:
    """Return the outcome of a point's runs, as text."""
    if not results.bad:
        return "ok"
    bad = " and ".join(dict.fromkeys(str(record.status) for record in results.bad))
    return f"{len(results.bad)} of {len(results.good) + len(results.bad)} {bad}" if results.good else bad


class PointColumn(NamedTuple):
    """One column: a value of a point, and the half-width of its interval, which determines the digits."""

    title: str
    value: Callable[[PointResults], str | int | float | None]  # a count is an int
    half_width: Callable[[PointResults], float | None] = lambda one: None
    shown: Shown = Shown.MORE


GIB = 1 << 30


def _median(path: str, one: PointResults) -> float | None:
    value = one.value(path)
    return None if value is None else float(value)


def _mfu_percent(one: PointResults) -> float | None:
    mfu = one.value("metrics.mfu")
    return None if mfu is None else 100.0 * mfu


def _energy_kinds(one: PointResults) -> str:
    return " and ".join(sorted({kind for record in one.good if (kind := energy_kind(record))}))


def sampling_percent(one: PointResults) -> float | None:
    """Return the largest half-width of the runs' energies by sampling and counter, in percent."""
    shares = [share for record in one.good if (share := sampling_share(record)) is not None]
    return 100 * max(shares) if shares else None


def _accuracy(one: PointResults) -> str:
    return " and ".join(dict.fromkeys(accuracy_text(record) for record in one.good if record.energy))


def _p95_over_median_percent(one: PointResults) -> float | None:
    median, slow = one.value("metrics.step_time_median_s"), one.value("metrics.step_time_p95_s")
    return 100 * (slow / median - 1) if median and slow else None


def _peak_memory_gib(one: PointResults) -> float | None:
    known = [device.peak_memory_bytes for record in one.good for device in record.devices]
    return max((value for value in known if value), default=0) / GIB or None


def _clocks(one: PointResults) -> list[Clocks]:
    channels = [channel for record in one.good for channel in sensor_channels(record)]
    return [channel.clocks for channel in channels if channel.clocks]


def _clock_mhz(one: PointResults) -> float | None:
    known = [mhz for clocks in _clocks(one) if (mhz := clocks.mean_mhz)]
    return statistics.fmean(known) if known else None


def _throttled_percent(one: PointResults) -> float | None:
    """Return the largest share of the window with a throttle reason, over devices and reasons, in percent."""
    known = [clocks.throttled for clocks in _clocks(one) if clocks.throttled is not None]
    return max((percent for reasons in known for percent in reasons.values()), default=0.0) if known else None


COLUMNS: tuple[PointColumn, ...] = (
    PointColumn("system", lambda one: one.system, shown=Shown.ALWAYS),
    PointColumn("model", lambda one: one.point.model, shown=Shown.ALWAYS),
    PointColumn("data", lambda one: one.point.data, shown=Shown.DIFFERS),
    PointColumn("devices", lambda one: one.point.devices, shown=Shown.ALWAYS),
    PointColumn("global batch", lambda one: one.point.global_batch, shown=Shown.ALWAYS),
    PointColumn("precision", lambda one: one.precision, shown=Shown.DIFFERS),
    PointColumn(
        "options", lambda one: ", ".join(text for text in one.variant if text != one.precision), shown=Shown.DIFFERS
    ),
    PointColumn("status", status, shown=Shown.ALWAYS),
    PointColumn("runs", lambda one: len(one.good), shown=Shown.DIFFERS),
    PointColumn("{unit}/s", partial(_median, THROUGHPUT), methodcaller("half_width", THROUGHPUT), shown=Shown.ALWAYS),
    PointColumn(
        "± 95 %", methodcaller("half_width", THROUGHPUT), methodcaller("half_width", THROUGHPUT), shown=Shown.ALWAYS
    ),
    PointColumn("slowest copy [{unit}/s]", partial(_median, "fill.slowest")),
    PointColumn("spread of copies [%]", partial(_median, "fill.spread_percent")),
    PointColumn("{unit}/s/device", partial(_median, PER_DEVICE), methodcaller("half_width", PER_DEVICE)),
    PointColumn("TFLOP/s/device", partial(_median, "metrics.tflops_per_device")),
    PointColumn("MFU [%]", _mfu_percent),
    PointColumn("of achievable [%]", partial(_median, "metrics.achievable_percent")),
    PointColumn("avg power [W]", partial(_median, "energy.avg_power_w"), shown=Shown.ALWAYS),
    PointColumn("{unit}/Wh", partial(_median, WORK), methodcaller("half_width", WORK), shown=Shown.ALWAYS),
    PointColumn("± 95 %", methodcaller("half_width", WORK), methodcaller("half_width", WORK), shown=Shown.ALWAYS),
    PointColumn("sampling ± [%]", sampling_percent),
    PointColumn("sensor accuracy", _accuracy),
    PointColumn("energy", _energy_kinds, shown=Shown.DIFFERS),
    PointColumn("p95 step over median [%]", _p95_over_median_percent),
    PointColumn("peak memory [GiB]", _peak_memory_gib),
    PointColumn("clock [MHz]", _clock_mhz),
    PointColumn("throttled [%]", _throttled_percent),
    PointColumn("power limit bound [%]", limited_percent),
)
