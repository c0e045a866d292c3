"""Estimates with their uncertainty, and products of them.

Values are above 0, and uncertainties are those of their logarithms, so that they add up in a product. The degrees of
freedom of a sum are by Welch and Satterthwaite.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

CONFIDENCE = 0.95
LARGEST_LOG = 700.0  # exp() of more is no finite float


class Interval(NamedTuple):
    """Interval that holds the true value with probability CONFIDENCE."""

    low: float
    high: float

    @property
    def half(self) -> float:
        """Half-width of the interval."""
        return (self.high - self.low) / 2


def overlap(one: Interval | None, other: Interval | None) -> bool:
    """Return whether two intervals overlap; True if one is unknown."""
    return one is None or other is None or (one.low <= other.high and other.low <= one.high)


class Part(NamedTuple):
    """One independent component of the uncertainty: its variance, and the degrees of freedom of the variance."""

    variance: float
    freedom: float


def half_interval(parts: Sequence[Part], choices: int = 1) -> float:
    """Return the half-width of the interval of a sum with these components.

    If the sum is the best of several choices, the intervals of all choices hold at the same time (Bonferroni).
    """
    variance = math.fsum(part.variance for part in parts)
    if not variance:
        return 0.0
    uncertain = math.fsum(part.variance**2 / part.freedom for part in parts)
    return students_t(variance**2 / uncertain if uncertain else math.inf, choices) * math.sqrt(variance)


@lru_cache(maxsize=1000)
def students_t(freedom: float, choices: int = 1) -> float:
    """Return Student's half-width in standard deviations; cached, as many points have the same degrees of freedom."""
    from scipy import stats

    return float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / choices, freedom))


class Estimate(NamedTuple):
    """Median of runs, or a value from several estimates; `parts` is None for a single run: no confidence interval."""

    value: float
    log: float  # logarithm of the middle of the interval, which is the geometric mean of runs
    parts: tuple[Part, ...] | None

    @property
    def interval(self) -> Interval | None:
        """Student's interval of the geometric mean; None for a single run."""
        return self.interval_of_best(1)

    @property
    def text(self) -> str:
        """Value with its interval, as text."""
        return f"{self.value:.3f}" + (
            " [{:.3f}, {:.3f}]".format(*self.interval) if self.interval and self.parts else ""
        )

    def interval_of_best(self, choices: int) -> Interval | None:
        """Return the interval if this is the best of several estimates; `choices` is their number."""
        if self.parts is None:
            return None
        half = half_interval(self.parts, choices)
        if not half:
            return Interval(self.value, self.value)
        return Interval(*(math.exp(max(-LARGEST_LOG, min(self.log + end, LARGEST_LOG))) for end in (-half, half)))

    def __pow__(self, exponent: float) -> Estimate:  # type: ignore[override]
        parts = self.parts and tuple(Part(part.variance * exponent**2, part.freedom) for part in self.parts)
        return Estimate(self.value**exponent, self.log * exponent, parts)

    def __mul__(self, other: Estimate | float) -> Estimate:  # type: ignore[override]
        if not isinstance(other, Estimate):
            other = exactly(other)
        known = self.parts is not None and other.parts is not None
        parts = (*(self.parts or ()), *(other.parts or ())) if known else None
        return Estimate(self.value * other.value, self.log + other.log, parts)

    def __truediv__(self, other: Estimate | float) -> Estimate:
        return self * (other**-1)


def exactly(value: float) -> Estimate:
    """Return the estimate of a number without uncertainty."""
    return Estimate(value, math.log(value), ())


def inexactly(value: float, relative: float) -> Estimate:
    """Return the estimate of a number with a relative standard uncertainty."""
    return Estimate(value, math.log(value), (_of_sensor(relative),) if relative else ())


def of_runs(values: Sequence[float], sensor: float = 0.0) -> Estimate:
    """Return the estimate from the values of a point's runs; sensor: standard uncertainty of each value, relative.

    All runs share the error of the sensor. Raises ValueError without values, or for one that is not above 0.
    """
    logs = [math.log(value) for value in values]
    parts = None
    if len(logs) > 1:
        parts = (Part(statistics.variance(logs) / len(logs), len(logs) - 1), _of_sensor(sensor))
    return Estimate(statistics.median(values), statistics.fmean(logs), parts)


def _of_sensor(sensor: float) -> Part:
    """Return the systematic component, which more runs do not reduce."""
    return Part(sensor**2, math.inf)


def trimmed_mean(values: Sequence[float], smallest: int, largest: int, sensor: float = 0.0) -> Estimate:
    """Return the mean without the given numbers of smallest and largest values; sensor: as in `of_runs`.

    Its standard error is that of the winsorized values (Tukey and McLaughlin 1963). Raises ValueError if no value is
    left, or one is not above 0.
    """
    ordered = sorted(values)
    middle = ordered[smallest : len(ordered) - largest]
    if not middle or ordered[0] <= 0:
        raise ValueError(f"{len(values)} values leave none without {smallest} and {largest}")
    mean = statistics.fmean(middle)
    parts = None
    if len(middle) > 1:
        winsorized = [middle[0]] * smallest + middle + [middle[-1]] * largest
        error = statistics.stdev(winsorized) * math.sqrt(len(ordered)) / len(middle)
        parts = (Part((error / mean) ** 2, len(middle) - 1), _of_sensor(sensor))
    return Estimate(mean, math.log(mean), parts)


def product(factors: Iterable[tuple[Estimate, float]]) -> Estimate:
    """Return the product of independent estimates, each raised to its exponent."""
    total = exactly(1.0)
    for estimate, exponent in factors:
        total = total * estimate**exponent
    return total
