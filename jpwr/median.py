"""Percentiles, and the confidence interval of a median."""

from __future__ import annotations

from math import comb
from typing import Sequence


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | tuple[None, None]:
    """Return a confidence interval of the median, for any distribution; (None, None) for too few values.

    Conover 1999, Practical Nonparametric Statistics, section 3.2.
    """
    count, ordered = len(values), sorted(values)
    outside, low = 0.0, None
    for index in range(count // 2):
        # Probability that the median is beyond the index-th value from either end.
        outside += 2 * comb(count, index) / 2**count
        if outside > 1 - confidence:
            break
        low = index
    return (None, None) if low is None else (ordered[low], ordered[count - 1 - low])


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which `percent` of the values lie, interpolated linearly as numpy does by default."""
    if not values:
        raise ValueError("a percentile needs at least one value")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
