"""Points as a table: the repeats of each in one row, with their interval and the quality of its energy."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

from results.points.operating import limited_percent
from results.points.repeats import PointResults
from results.points.sensors import accuracy_text, sampling_share
from results.record.findings import Finding
from results.record.parts import sensor_channels
from results.record.values import PER_DEVICE, THROUGHPUT, WORK, Number, rounded
from results.show.tables.fit import Shown, View, once_each, view
from results.show.tables.table import column_of, ordered, shown_of
from results.verdicts.quality import deviations, energy_kind


def status(results: PointResults) -> str:
    """Return the outcome of a point's runs, as text."""
    if not results.bad:
        return "ok"
    bad = " and ".join(dict.fromkeys(str(record["status"]) for record in results.bad))
    return f"{len(results.bad)} of {len(results.good) + len(results.bad)} {bad}" if results.good else bad


class PointColumn(NamedTuple):
    """One column: a value of a point, and the half-width of its interval, which determines the digits."""

    title: str
    value: Callable[[PointResults], str | int | float | None]  # a count is an int
    half_width: Callable[[PointResults], float | None] = lambda one: None
    shown: Shown = Shown.MORE


def point_view(
    results: Sequence[PointResults], number: Number = rounded, everything: bool = False, wanted: Sequence[str] = ()
) -> View:
    """Return a row per point with the columns that a reader needs, and those with the titles `wanted`."""
    records = [one.any for one in results]
    units = dict.fromkeys(record["work_unit"] for record in records)
    columns = _columns_of(results)
    rows = [[column.title.format(unit=" or ".join(units)) for column in columns]]
    rows += [[_text(one, column, number) for column in columns] for one in results]
    return view(rows, shown_of(columns, records, wanted), everything)


def point_rows(results: Sequence[PointResults]) -> list[list[str]]:
    """Return the header and one row per point, as text, without empty columns."""
    return point_view(results, everything=True).lines


def _columns_of(results: Sequence[PointResults]) -> Sequence[PointColumn]:
    from results.show.tables.inference import point_columns_of  # which adds to these columns

    return point_columns_of(results)


def _text(one: PointResults, column: PointColumn, number: Number) -> str:
    value = column.value(one)
    return str(value) if isinstance(value, str | int) else number(value, column.half_width(one))


GIB = 1 << 30
PLACE = (
    "system",
    "model",
    "devices",
    "global batch",
    "options",
)  # columns that identify a point in tables of its parts


def place_of(one: PointResults) -> list[str]:
    """Return the cells of the columns PLACE."""
    point = one.point
    return [one.system, point.model, str(point.devices), str(point.global_batch), ", ".join(one.variant)]


def place_view(lines: Sequence[Sequence[str]], everything: bool, shown: Mapping[str, Shown]) -> View:
    """Return a table whose rows begin with the columns PLACE, which are shown if they differ.

    `shown` has the other columns that are not always shown.
    """
    found = view(
        lines, [Shown.DIFFERS if one in PLACE else shown.get(one, Shown.ALWAYS) for one in lines[0]], everything
    )
    places = sum(title in PLACE for title in found.lines[0])
    return found if everything else found._replace(lines=once_each(found.lines, places))


def points_in_order(results: Sequence[PointResults], title: str, largest_first: bool = False) -> list[PointResults]:
    """Sort points by a column's value, those without one last. Raises RecordError for an unknown title."""
    column = column_of(title, COLUMNS, [one.any for one in results])
    return ordered(results, column.value, largest_first)


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
    return " and ".join(dict.fromkeys(accuracy_text(record) for record in one.good if record.get("energy")))


def notes(results: Sequence[PointResults]) -> list[tuple[str, list[Finding]]]:
    """Return the name of each point that deviates from the rules, with its deviations."""
    return [(f"{one.system}: {one.point}", found) for one in results if (found := deviations(one))]


def _p95_over_median_percent(one: PointResults) -> float | None:
    median, slow = one.value("metrics.step_time_median_s"), one.value("metrics.step_time_p95_s")
    return 100 * (slow / median - 1) if median and slow else None


def _peak_memory_gib(one: PointResults) -> float | None:
    known = [device.get("peak_memory_bytes") for record in one.good for device in record.get("devices") or []]
    return max((value for value in known if value), default=0) / GIB or None


def _clocks(one: PointResults) -> list[dict[str, Any]]:
    channels = [channel for record in one.good for channel in sensor_channels(record)]
    return [channel["clocks"] for channel in channels if channel.get("clocks")]


def _clock_mhz(one: PointResults) -> float | None:
    known = [clocks["mean_mhz"] for clocks in _clocks(one) if clocks.get("mean_mhz")]
    return statistics.fmean(known) if known else None


def _throttled_percent(one: PointResults) -> float | None:
    """Return the largest share of the window with a throttle reason, over devices and reasons, in percent."""
    known = [clocks["throttled"] for clocks in _clocks(one) if clocks.get("throttled") is not None]
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
