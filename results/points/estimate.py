"""Estimates with their uncertainty, products of them, and the outcome of a limit.

Values are above 0, and uncertainties are those of their logarithms, so that they add up in a product. The degrees of
freedom of a sum are by Welch and Satterthwaite.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

CONFIDENCE = 0.95
MEDIAN_ERROR = math.sqrt(math.pi / 2)  # of normal values, over that of the mean
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


class Outcome(Enum):
    """Outcome of one requirement."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


def judge(meets_limit: Callable[[float], bool], interval: Interval) -> Outcome:
    """Return PASSED if the whole interval meets the limit, FAILED if no part of it does, else UNDECIDED."""
    ends = [meets_limit(end) for end in interval]
    return Outcome.PASSED if all(ends) else Outcome.UNDECIDED if any(ends) else Outcome.FAILED


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 0 if all passed, 1 if one failed, 3 if none failed and one is undecided."""
    distinct = set(outcomes)
    return 1 if Outcome.FAILED in distinct else 3 if Outcome.UNDECIDED in distinct else 0


class Part(NamedTuple):
    """One component of an uncertainty: its standard error, and the degrees of freedom of that error.

    Components with one source are one error, such as that of a sensor model: it adds up in a product, and cancels in a
    ratio. A component without a source is independent of all others.
    """

    error: float
    freedom: float = math.inf
    source: Hashable = None


def half_interval(parts: Sequence[Part], choices: int = 1) -> float:
    """Return the half-width of the interval of a sum with these components.

    If the sum is the best of several choices, the intervals of all choices hold at the same time (Bonferroni).
    """
    sources: dict[Hashable, list[Part]] = {}
    for number, part in enumerate(parts):
        sources.setdefault((number,) if part.source is None else part.source, []).append(part)
    variances = [
        (math.fsum(part.error for part in alike) ** 2, min(part.freedom for part in alike))
        for alike in sources.values()
    ]
    variance = math.fsum(variance for variance, _ in variances)
    if not variance:
        return 0.0
    uncertain = math.fsum(variance**2 / freedom for variance, freedom in variances)
    return students_t(variance**2 / uncertain if uncertain else math.inf, choices) * math.sqrt(variance)


@lru_cache(maxsize=1000)
def students_t(freedom: float, choices: int = 1) -> float:
    """Return Student's half-width in standard deviations; cached, as many points have the same degrees of freedom."""
    from scipy.special import stdtrit  # scipy.stats takes four times as long to import

    return float(stdtrit(freedom, 1 - (1 - CONFIDENCE) / 2 / choices))


class Estimate(NamedTuple):
    """Value with its uncertainty; `parts`, of its logarithm, is None for a single run: no confidence interval."""

    value: float
    parts: tuple[Part, ...] | None

    @property
    def interval(self) -> Interval | None:
        """Student's interval around the value; None for a single run."""
        return self.interval_of_best(1)

    @property
    def text(self) -> str:
        """Value with its interval, as text."""
        ends = " [{:.3f}, {:.3f}]".format(*self.interval) if self.interval and self.parts else ""
        return f"{self.value:.3f}{ends}"

    def interval_of_best(self, choices: int) -> Interval | None:
        """Return the interval if this is the best of several estimates; `choices` is their number."""
        if self.parts is None:
            return None
        half = half_interval(self.parts, choices)
        log = math.log(self.value)
        if not half:
            return Interval(self.value, self.value)
        return Interval(*(math.exp(max(-LARGEST_LOG, min(log + end, LARGEST_LOG))) for end in (-half, half)))

    def of_source(self, source: Hashable) -> Estimate:
        """Return the estimate with one source for each independent component: for a value that is used repeatedly."""
        if self.parts is None:
            return self
        numbered = enumerate(self.parts)
        return Estimate(self.value, tuple(part._replace(source=part.source or (source, at)) for at, part in numbered))

    def __pow__(self, exponent: float) -> Estimate:  # type: ignore[override]
        parts = self.parts and tuple(part._replace(error=part.error * exponent) for part in self.parts)
        return Estimate(self.value**exponent, parts)

    def __mul__(self, other: Estimate | float) -> Estimate:  # type: ignore[override]
        if not isinstance(other, Estimate):
            other = exactly(other)
        is_known = self.parts is not None and other.parts is not None
        return Estimate(self.value * other.value, (self.parts or ()) + (other.parts or ()) if is_known else None)

    def __truediv__(self, other: Estimate | float) -> Estimate:
        return self * (other**-1)


def exactly(value: float, but_for: float = 0.0) -> Estimate:
    """Return the estimate of a number without uncertainty, or with a relative standard uncertainty."""
    return Estimate(value, (Part(but_for),) if but_for else ())


def of_runs(values: Sequence[float], shared: Sequence[Part] = ()) -> Estimate:
    """Return the median of a point's runs; shared: components that all runs have, such as the error of their sensor.

    The standard error of the median is at most MEDIAN_ERROR times that of the mean. Of up to four runs, the interval of
    the mean's is wide enough: it holds the truth in 94.6 to 95 of 100 cases. Raises ValueError without values, or for
    one that is not above 0.
    """
    logs = [math.log(value) for value in values]
    if len(logs) < 2:
        return Estimate(statistics.median(values), None)
    error = statistics.stdev(logs) / math.sqrt(len(logs)) * (MEDIAN_ERROR if len(logs) > 4 else 1.0)
    return Estimate(statistics.median(values), (Part(error, len(logs) - 1), *shared))


def trimmed_mean(values: Sequence[float], smallest: int, largest: int, shared: Sequence[Part] = ()) -> Estimate:
    """Return the mean without the given numbers of smallest and largest values; shared: as in `of_runs`.

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
        parts = (Part(error / mean, len(middle) - 1), *shared)
    return Estimate(mean, parts)


def product(factors: Iterable[tuple[Estimate, float]]) -> Estimate:
    """Return the product of estimates, each raised to its exponent."""
    total = exactly(1.0)
    for estimate, exponent in factors:
        total = total * estimate**exponent
    return total
