"""Find changes of level and a drift in a series of measurements.

Values are natural logarithms, so that differences are relative. ruptures proposes where the level changes; a t-test
keeps what chance does not explain. docs/howto/watch_a_machine.md has the rate of false alarms of these constants.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from results.points.estimate import CONFIDENCE, Estimate, Part, half_interval

SHORTEST = 3  # values of a level: one or two that differ are outliers until a third confirms them
FEWEST = 8  # values without which nothing is looked for
WINDOW = 5  # values whose median an outlier is compared with
OUTLIER = 5.0  # standard deviations
# Gain of the squared error, in variances, for which a change is proposed; lower than what the test then demands.
PENALTY = 8.0
SIGNIFICANCE = 1e-6  # of a change, over all its possible places; a drift has one
DRIFT_SIGNIFICANCE = 1e-5
POSSIBLE_DRIFT = 0.05  # a drift that is not excluded at this level widens the intervals of changes
MOST_ALIKE = 0.8  # lag-1 autocorrelation that is corrected for: at more, nothing would be found
ROUNDS = 5  # of the search for changes with a drift
CERTAIN = 6.0  # standard deviations above the threshold of finding a change, with which it is always found
SMALLEST = 1e-5  # relative standard deviation that counts: values may be rounded
TO_SIGMA = 1.4826  # from the median absolute deviation of normal values to their standard deviation
DAYS_PER_YEAR = 365.25
SHORTEST_D = 28.0  # days without which no rate over a year is stated


class Step(NamedTuple):
    """Change of the level: the index of the first value after it, and the ratio of the levels."""

    at: int
    ratio: Estimate


class Fit(NamedTuple):
    """Levels and drift of a series."""

    steps: list[Step]
    drift: Estimate | None  # ratio over a year; None if chance explains it
    logs: list[float]  # fitted value at each time
    outliers: list[int]
    scatter: float  # standard deviation about the fit, relative
    resolution: float  # half-width of the interval of a change SHORTEST values ago, relative
    together: Callable[..., Estimate]  # ratio of the levels by several steps, from their numbers
    total: Callable[[int, Collection[int]], Estimate]  # last value over that at an index, without the steps of numbers


def fit(times_d: Sequence[float], logs: Sequence[float], own: Sequence[float] = ()) -> Fit | None:
    """Return the levels and the drift of values at some times, in days; None for fewer than FEWEST.

    own: variance of each value by its own measurement, which is a lower bound of the scatter. Raises ImportError
    without ruptures.
    """
    if len(logs) < FEWEST:
        return None
    floor = max(SMALLEST**2, statistics.fmean(own) if own else 0.0)
    cleaned, outliers = without_outliers(logs, floor)
    model, p_value = _Model(times_d, cleaned, _breaks(cleaned, floor), floor), 1.0
    if times_d[-1] - times_d[0] >= SHORTEST_D:
        with_drift = _Model(times_d, cleaned, model.breaks, floor, drifts=True)
        for _ in range(ROUNDS if with_drift.p_value() < POSSIBLE_DRIFT else 0):
            slope = with_drift.coefficients[-1]
            breaks = _breaks([log - slope * time_d for time_d, log in zip(times_d, cleaned, strict=True)], floor)
            if breaks == with_drift.breaks:
                break
            with_drift = _Model(times_d, cleaned, breaks, floor, drifts=True)
        p_value = with_drift.p_value()
        model = with_drift if p_value < POSSIBLE_DRIFT else model
    per_year = [0.0] * (len(model.breaks) + 1) + [DAYS_PER_YEAR]
    drift = model.estimate(per_year) if p_value < DRIFT_SIGNIFICANCE else None
    steps = [Step(at, model.found_step(number)) for number, at in enumerate(model.breaks)]
    current = max(1, len(logs) - max(model.breaks, default=0) - SHORTEST)
    variance = model.variance * (1 / SHORTEST + 1 / current)
    resolution = math.expm1(half_interval([Part(variance, model.freedom)]))
    return Fit(
        steps, drift, list(model.fitted), outliers, math.sqrt(model.variance), resolution, model.step, model.total
    )


def trend_of(times_d: Sequence[float], logs: Sequence[float]) -> Estimate | None:
    """Return the ratio over a year by one straight line; None for fewer than 3 values or less than SHORTEST_D."""
    if len(logs) < 3 or times_d[-1] - times_d[0] < SHORTEST_D:
        return None
    return _Model(times_d, logs, [], SMALLEST**2, drifts=True).estimate([0.0, DAYS_PER_YEAR])


def without_outliers(logs: Sequence[float], floor: float = SMALLEST**2) -> tuple[list[float], list[int]]:
    """Return values with each outlier replaced by the median of its neighbours, and the outliers' indices (Hampel)."""
    limit = OUTLIER * _sigma(logs, floor)
    found, outliers = list(logs), []
    for index, log in enumerate(logs):
        begin = max(0, min(index - WINDOW // 2, len(logs) - WINDOW))
        median = statistics.median(logs[begin : begin + WINDOW])
        if abs(log - median) > limit:
            found[index] = median
            outliers.append(index)
    return found, outliers


def _sigma(logs: Sequence[float], floor: float) -> float:
    """Return the standard deviation, from differences of successive values, which a few changes do not affect."""
    differences = [abs(after - before) for before, after in pairwise(logs)]
    return max(TO_SIGMA * statistics.median(differences) / math.sqrt(2), math.sqrt(floor))


def _breaks(logs: Sequence[float], floor: float) -> list[int]:
    """Return the indices of the first values after each change of level."""
    import numpy as np
    import ruptures

    scaled = (np.asarray(logs) / _sigma(logs, floor)).reshape(-1, 1)
    search = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(scaled)
    breaks = [int(at) for at in search.predict(pen=PENALTY)[:-1]]
    while breaks:
        model = _Model(range(len(logs)), logs, breaks, floor)
        p_values = [model.p_value(number) * len(logs) for number in range(len(breaks))]
        weakest = max(range(len(breaks)), key=p_values.__getitem__)
        if p_values[weakest] < SIGNIFICANCE:
            break
        del breaks[weakest]
    return breaks


class _Model:
    """Least squares of a level between breaks, with one drift over all of them if it drifts."""

    def __init__(
        self, times_d: Sequence[float], logs: Sequence[float], breaks: list[int], floor: float, drifts: bool = False
    ) -> None:
        import numpy as np

        self.breaks, self._times_d, self._drifts = breaks, times_d, drifts
        matrix = np.zeros((len(logs), len(breaks) + 1 + drifts))
        for column, (begin, end) in enumerate(zip([0, *breaks], [*breaks, len(logs)], strict=True)):
            matrix[begin:end, column] = 1
        if drifts:
            matrix[:, -1] = np.asarray(times_d) - times_d[0]
        self._covariance = np.linalg.pinv(matrix.T @ matrix)  # over the variance
        self.coefficients = self._covariance @ (matrix.T @ np.asarray(logs))
        self.fitted = matrix @ self.coefficients
        self.freedom = max(1, len(logs) - matrix.shape[1])
        errors = np.asarray(logs) - self.fitted
        square = float(errors @ errors)
        self.variance = max(floor, square / self.freedom)
        # Successive values that are alike count as fewer: the variance of the mean of a first-order autoregression.
        likeness = min(max(0.0, float(errors[1:] @ errors[:-1]) / square if square else 0.0), MOST_ALIKE)
        self._covariance *= (1 + likeness) / (1 - likeness)

    def estimate(self, weights: Sequence[float]) -> Estimate:
        """Return the ratio whose logarithm is a weighted sum of the coefficients."""
        log = float(self.coefficients @ weights)
        variance = self.variance * float(weights @ self._covariance @ weights)
        return Estimate(math.exp(log), log, (Part(variance, self.freedom),))

    def step(self, *numbers: int) -> Estimate:
        """Return the ratio of the levels after and before a break, or by several breaks together."""
        weights = [0.0] * len(self.coefficients)
        for number in numbers:
            weights[number] -= 1.0
            weights[number + 1] += 1.0
        return self.estimate(weights)

    def found_step(self, number: int) -> Estimate:
        """Return the ratio of the levels at a break that was found: a smaller change might not have been.

        Of changes that are seldom found, noise makes the found ones larger. So the near end of the interval is that of
        a value above the threshold of finding it (Hedges 1984, J. Educ. Stat. 9, 61), at the nearest no change.
        """
        from scipy.optimize import brentq
        from scipy.stats import norm

        estimate, far = self.step(number), float(norm.ppf((1 + CONFIDENCE) / 2))
        found = float(norm.isf(self.p_value(number) / 2))  # standard deviations
        least = float(norm.isf(SIGNIFICANCE / len(self._times_d) / 2))
        if not least < found < least + CERTAIN:
            return estimate

        def beyond(mean: float) -> float:
            """Return how the share of larger ones among found changes differs from that at the end, as a logarithm."""
            return float(norm.logsf(found - mean) - norm.logsf(least - mean)) - math.log((1 - CONFIDENCE) / 2)

        near = brentq(beyond, 0.0, found) if beyond(0.0) < 0 else 0.0
        middle, half = (near + found + far) / 2, (found + far - near) / 2
        each = estimate.log / found
        return Estimate(estimate.value, each * middle, (Part((each * half / far) ** 2, math.inf),))

    def total(self, first: int, without: Collection[int] = ()) -> Estimate:
        """Return the ratio of the last value to that at an index, by drift and steps, without the steps of numbers."""
        weights = [0.0] * len(self.coefficients)
        for number, at in enumerate(self.breaks):
            if at > first and number not in without:
                weights[number] -= 1.0
                weights[number + 1] += 1.0
        if self._drifts:
            weights[-1] += self._times_d[-1] - self._times_d[first]
        return self.estimate(weights)

    def p_value(self, step: int | None = None) -> float:
        """Return the probability by chance of a step, or of the drift without one: Student's test, two-sided."""
        from scipy.special import stdtr

        found = self.estimate([0.0] * (len(self.coefficients) - 1) + [1.0]) if step is None else self.step(step)
        [part] = found.parts or ()
        return float(2 * stdtr(part.freedom, -abs(found.log) / math.sqrt(part.variance)))
