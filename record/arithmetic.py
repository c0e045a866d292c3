"""Arithmetic with numbers that may be missing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jpwr.median import percentile
from record.part import is_number

POWER_PERCENTILES = (75, 90, 99)
SMOOTHED_LOSSES = 10  # in a mean, whose noise is a third of that of a step's loss
TENTHS = 10  # mean powers of the core phase in the power measurement methodology of the EEHPCWG


def sum_of_all(values: Sequence[Any]) -> float | None:
    """Return the sum; None without values, or if one is not a number."""
    return math.fsum(values) if values and all(map(is_number, values)) else None


def median_of_all(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, or if one is unknown."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def ratio(value: Any, by: Any) -> float | None:
    """Return the quotient; None unless both are numbers and the divisor is not 0."""
    return value / by if is_number(value) and is_number(by) and by else None


def product(*values: Any) -> float | None:
    """Return the product; None if a value is not a number."""
    return math.prod(values) if all(map(is_number, values)) else None


def power_over_time(parts_w: Sequence[float], time_s: float) -> dict[str, Any]:
    """Return percentiles over time of power, and its means in tenths, from the means in equal parts of a time."""
    number = len(parts_w)
    if number < TENTHS:
        return {}
    edges = [number * one // TENTHS for one in range(TENTHS + 1)]
    tenths = [math.fsum(parts_w[low:high]) / (high - low) for low, high in pairwise(edges)]
    percentiles = {f"p{one}_power_w": percentile(parts_w, one) for one in POWER_PERCENTILES}
    return {"part_s": time_s / number, "tenths": tenths, **percentiles}


def smoothed(losses: Sequence[Any] | None) -> float | None:
    """Return the mean of the last SMOOTHED_LOSSES losses; None with fewer, or if one is no number."""
    last = (losses or ())[-SMOOTHED_LOSSES:]
    return ratio(sum_of_all(last), SMOOTHED_LOSSES) if len(last) == SMOOTHED_LOSSES else None
