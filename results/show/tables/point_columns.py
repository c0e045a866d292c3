"""Columns of points: a value of each, with the half-width of its interval."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

from record.findings import Finding
from record.model import Clocks, Record
from record.parts import sensor_channels
from results.files.quantities import QUANTITIES, Quantity, quantities
from results.points.operating import limited_percent, limits_of, unsettled
from results.points.repeats import PointResults
from results.points.sensors import accuracy_text, sampling_share
from results.show.tables.cells import Amount, Cell
from results.show.tables.whole_system import CELLS
from results.show.tables.whole_system import NAMES as POWER_NAMES
from results.verdicts.quality import energy_kind, why_not_ranked
from results.verdicts.ranking import why_left_out


def status(results: PointResults) -> str:
    """Return the outcome of a point's runs, as text."""
    if not results.bad:
        return "ok"
    bad = " and ".join(dict.fromkeys(str(record.status) for record in results.bad))
    return f"{len(results.bad)} of {len(results.good) + len(results.bad)} {bad}" if results.good else bad


GIB = 1 << 30
NOT_RANKED = ("not_ranked", "energy_not_ranked")
HALF = "± 95 %"  # title of the half-width of an interval


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


def _text(finding: Finding | None) -> str | None:
    return None if finding is None else str(finding)


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


def _of_good(cell: Callable[[Sequence[Record]], Cell]) -> Callable[[PointResults], Cell]:
    return lambda one: cell(one.good)


class PointColumn(NamedTuple):
    """A quantity, and its value of a point. A number without an interval has the digits of a median."""

    quantity: Quantity
    value: Callable[[PointResults], Cell]


# Quantities that are not the median of a number of the runs.
VALUES: Mapping[str, Callable[[PointResults], Cell]] = {
    "system": attrgetter("system"),
    "model": attrgetter("point.model"),
    "data": attrgetter("point.data"),
    "in/out": attrgetter("point.sample"),
    "devices": attrgetter("point.devices"),
    "global_batch": attrgetter("point.global_batch"),
    "concurrency": attrgetter("point.global_batch"),
    "precision": attrgetter("precision"),
    "variant": lambda one: [text for text in one.variant if text != one.precision],
    "status": status,
    "runs": lambda one: len(one.good),
    "mfu_percent": _mfu_percent,
    "sampling_percent": sampling_percent,
    "sensor_accuracy": _accuracy,
    "energy": _energy_kinds,
    "p95_over_median_percent": _p95_over_median_percent,
    "peak_memory_gib": _peak_memory_gib,
    "clock_mhz": _clock_mhz,
    "throttled_percent": _throttled_percent,
    "power_limit_w": lambda one: limits_of(one.any).power_w,
    "clock_limit_mhz": lambda one: limits_of(one.any).clock_mhz,
    "power_limited_percent": limited_percent,
    "unsettled": unsettled,
    "not_ranked": lambda one: _text(why_left_out(one)) if one.good else None,
    "energy_not_ranked": lambda one: _text(why_not_ranked(one)) if one.good else None,
    **{name: _of_good(cell) for name, cell in CELLS.items()},
}


def columns_of_points(*names: str) -> list[PointColumn]:
    """Return columns by the names of their quantities."""
    return [
        PointColumn(one, partial(_cell, VALUES.get(name) or methodcaller("value", one.path)))
        for name, one in zip(names, quantities(*names), strict=True)
    ]


def _cell(value: Callable[[PointResults], Any], one: PointResults) -> Cell:
    cell = value(one)
    return Amount(cell) if isinstance(cell, float) else cell


def with_interval(quantity: Quantity) -> list[PointColumn]:
    """Return the columns of a median and of the half-width of its interval."""
    value, half_width = (methodcaller(name, quantity.path) for name in ("value", "half_width"))
    return [
        PointColumn(quantity, lambda one: Amount(value(one), half_width(one))),
        PointColumn(QUANTITIES[HALF]._replace(shown=quantity.shown), lambda one: Amount(*[half_width(one)] * 2)),
    ]


[LIMITED] = columns_of_points("power_limited_percent")
COLUMNS = (
    *columns_of_points("system", "model", "data", "devices", "global_batch", "precision", "variant"),
    *columns_of_points("power_limit_w", "clock_limit_mhz", "status", "runs"),
    *with_interval(QUANTITIES["work_per_s"]),
    *columns_of_points("slowest_copy", "spread_percent"),
    *with_interval(QUANTITIES["time_to_loss_s"]),
    *columns_of_points("energy_to_loss_wh", "work_to_loss", "target_loss"),
    with_interval(QUANTITIES["work_per_s_per_device"])[0],
    *columns_of_points("tflop_per_s_per_device", "mfu_percent", "achievable_percent", "avg_power_w"),
    *with_interval(QUANTITIES["work_per_wh"]),
    *with_interval(QUANTITIES["work_per_s_per_kw"]),
    *columns_of_points("sampling_percent", "sensor_accuracy", "energy", "p95_over_median_percent", "peak_memory_gib"),
    *columns_of_points(*POWER_NAMES, "clock_mhz", "throttled_percent"),
    LIMITED._replace(quantity=LIMITED.quantity._replace(title="power limit bound")),
    *columns_of_points("unsettled", *NOT_RANKED),
)
