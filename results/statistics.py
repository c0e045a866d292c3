"""Repeats of one point as one number with its uncertainty. The statistics are scipy's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from results.records import Record
from results.table import value_at

CONFIDENCE = 0.95


class Point(NamedTuple):
    """What is measured: equal for repeats, and for two systems that are compared."""

    benchmark: str
    model: str
    data: str
    sample: str  # tokens of a sequence, or pixels of an image
    devices: int
    global_batch: int

    def __str__(self) -> str:
        devices = f"{self.devices} device{'' if self.devices == 1 else 's'}"
        return (
            f"{self.benchmark}, {self.model}, {self.data}, {self.sample}, {devices}, global batch {self.global_batch}"
        )


class Summary(NamedTuple):
    """Repeats of one value; the interval is that of the mean, None with fewer than two repeats."""

    repeats: int
    median: float
    smallest: float
    largest: float
    low: float | None
    high: float | None


class Ratio(NamedTuple):
    """Of two medians; the interval is that of the ratio of geometric means, None with fewer than two repeats each."""

    ratio: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return f"{self.ratio:.3f}" + (f" [{self.low:.3f}, {self.high:.3f}]" if self.low is not None else "")


def point_of(record: Record) -> Point:
    """The point that a record is a repeat of."""
    pixels, tokens = value_at(record, "layout.image_size"), value_at(record, "layout.sequence_length")
    sample = f"{pixels} pixels" if pixels else f"{tokens} tokens" if tokens else ""
    return Point(
        record["benchmark"],
        record["model"],
        str(value_at(record, "config.data.data") or ""),
        sample,
        value_at(record, "layout.num_devices") or 0,
        value_at(record, "layout.global_batch_size") or 0,
    )


def summarise(values: Sequence[float]) -> Summary:
    """Median, range, and Student's 95 % interval of the mean; raises ValueError without a value."""
    if not values:
        raise ValueError("a summary needs at least one value")
    low = high = None
    if len(values) > 1:
        from scipy import stats

        mean, error = statistics.fmean(values), stats.sem(values)
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * error)
        low, high = mean - half, mean + half
    return Summary(len(values), statistics.median(values), min(values), max(values), low, high)


def compare_values(base: Sequence[float], other: Sequence[float]) -> Ratio:
    """`other` over `base`, both above 0; the interval is Welch's of the difference of logarithms."""
    ratio = statistics.median(other) / statistics.median(base)
    if min(len(base), len(other)) < 2:
        return Ratio(ratio, None, None)
    from scipy import stats

    logs = [[math.log(value) for value in values] for values in (other, base)]
    if all(len(set(values)) == 1 for values in logs):
        return Ratio(ratio, ratio, ratio)
    interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval(CONFIDENCE)
    return Ratio(ratio, math.exp(interval.low), math.exp(interval.high))


def geometric_mean(values: Sequence[float]) -> float:
    """Of values above 0, `nan` without any."""
    if not values:
        return math.nan
    from scipy import stats

    return float(stats.gmean(values))
