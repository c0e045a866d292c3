"""Points as a table for people: the repeats of each in one row, with their interval and the quality of its energy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from results.quality import deviations, energy_kind
from results.statistics import PointResults, Summary
from results.table import value_at

HEADER = (
    "system",
    "model",
    "data",
    "devices",
    "global batch",
    "options",
    "runs",
    "{unit}/s",
    "± 95 %",
    "{unit}/s/device",
    "TFLOP/s/device",
    "MFU [%]",
    "avg power [W]",
    "{unit}/Wh",
    "± 95 %",
    "sensor ± [%]",
    "energy",
    "status",
)
SIGNIFICANT = 4  # digits of a number without an interval


class Number(Protocol):
    """How a number is written, given half of its interval."""

    def __call__(self, value: float | None, half_width: float | None = None) -> str: ...


def rounded(value: float | None, half_width: float | None = None) -> str:
    """A number with the digits that its interval supports: two of the half width, else four in all."""
    if value is None or not math.isfinite(value):
        return ""
    if half_width and math.isfinite(half_width):
        decimals = 1 - math.floor(math.log10(half_width))
    else:
        decimals = SIGNIFICANT - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def half_width(summary: Summary | None) -> float | None:
    """Of the interval, None for a single run."""
    if summary is None or summary.low is None or summary.high is None:
        return None
    return (summary.high - summary.low) / 2


def status(results: PointResults) -> str:
    """What became of the runs of a point."""
    if not results.bad:
        return "ok"
    bad = " and ".join(dict.fromkeys(str(record["status"]) for record in results.bad))
    return f"{len(results.bad)} of {len(results.good) + len(results.bad)} {bad}" if results.good else bad


def plain(value: float | None, half_width: float | None = None) -> str:
    """A number as it is, for machines."""
    return "" if value is None or not math.isfinite(value) else repr(value)


def point_rows(
    results: Sequence[PointResults], without: Sequence[str] = (), number: Number = rounded
) -> list[list[str]]:
    """The header and one row per point, as text; a column without a value, or not wanted, is left out."""
    units = dict.fromkeys(one.any["work_unit"] for one in results)
    header = [title.format(unit=" or ".join(units)) for title in HEADER]
    body = [_row(one, number) for one in results]
    known = [index for index in range(len(HEADER)) if HEADER[index] not in without and any(row[index] for row in body)]
    return [[row[index] for index in known] for row in [header, *body]]


def _row(one: PointResults, number: Number) -> list[str]:
    throughput, work = one.summary("metrics.{unit}_per_s"), one.summary("energy.{unit}_per_wh")
    per_device = one.summary("metrics.{unit}_per_s_per_device")
    mfu = one.value("metrics.mfu")
    kinds = sorted({kind for record in one.good if (kind := energy_kind(record))})
    return [
        one.system,
        one.point.model,
        one.point.data,
        str(one.point.devices),
        str(one.point.global_batch),
        ", ".join(one.variant),
        str(len(one.good)),
        *_with_interval(throughput, number),
        _with_interval(per_device, number)[0],
        number(one.value("metrics.tflops_per_device")),
        number(None if mfu is None else 100 * mfu),
        number(one.value("energy.avg_power_w")),
        *_with_interval(work, number),
        number(sensor_uncertainty_percent(one)),
        " and ".join(kinds),
        status(one),
    ]


def _with_interval(summary: Summary | None, number: Number) -> tuple[str, str]:
    if summary is None:
        return "", ""
    half = half_width(summary)
    return number(summary.median, half), "" if half is None else number(half, half)


def sensor_uncertainty_percent(one: PointResults) -> float | None:
    """Of the energy of one run, by sampling and counter, apart from the spread of its repeats; the largest of them."""
    found = [
        100 * uncertainty / energy
        for record in one.good
        if (uncertainty := value_at(record, "energy.uncertainty_wh")) is not None
        and (energy := value_at(record, "energy.energy_wh"))
    ]
    return max(found, default=None)


def notes(results: Sequence[PointResults]) -> list[tuple[str, list[str]]]:
    """For each point that deviates from the rules its name, and how it does."""
    return [(f"{one.system}: {one.point}", found) for one in results if (found := deviations(one))]
