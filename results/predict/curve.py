"""Time of a step of one system as a function of its devices and its batch, and the error of each point left out.

A device's time for w samples is t = ((a w + c)^4 + L^4)^(1/4) N^k, with a time per sample a (matrix multiplications,
attention, activations), a time per step c (optimizer, parameters), a lower limit L by the launch of the step, and an
exponent k for the exposed communication of N devices. All four are above 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from record.values import grouped
from results.points.estimate import students_t

SHARPNESS = 4  # exponent of the smooth maximum of launching and computing
NOISE = 0.03  # of a point, relative
PRIOR_WEIGHT = 0.1  # of the prior against one point
FEWEST_POINTS = 3  # of a system, so that two are left where one is left out
FURTHEST = 2  # largest factor between what is asked and what was measured: leaving points out measures no larger error
# What a point is predicted from. Beyond the batches, errors are larger than between them, and fewer are known.
BETWEEN, BEYOND, OTHER_DEVICES = "smaller and larger batches", "batches on one side", "other numbers of devices"
ERRORS_OF = {BETWEEN: (BETWEEN, BEYOND), BEYOND: (BEYOND,), OTHER_DEVICES: (OTHER_DEVICES,)}


class Measured(NamedTuple):
    """A measured point; throughput in units of work per second of all devices."""

    devices: int
    batch: int
    per_s: float


class Curve:
    """Curve through points of one system, software, precision and model, by SciPy's least_squares on relative errors.

    The loss is soft_l1, so that one outlier does not bend the curve. The fit starts at `near`, a curve through almost
    the same points; that only saves time.
    """

    def __init__(self, points: Sequence[Measured], near: Curve | None = None) -> None:
        import numpy as np
        from scipy.optimize import least_squares

        devices, batches, per_s = np.array(points, dtype=float).T
        samples, seconds = batches / devices, batches / per_s
        # Prior: launching takes half of the shortest step, and a step costs as much as 4 samples.
        shortest, each = seconds.min(), (seconds / samples).min()
        prior = np.log([shortest / 2, each, 4 * each, 0.02])

        def errors(theta: np.ndarray) -> np.ndarray:
            works = np.log(np.exp(theta[1]) * samples + np.exp(theta[2]))
            both = np.logaddexp(SHARPNESS * theta[0], SHARPNESS * works) / SHARPNESS
            misses = both + np.exp(theta[3]) * np.log(devices) - np.log(seconds)
            result: np.ndarray = np.r_[misses / NOISE, PRIOR_WEIGHT * (theta - prior)]
            return result

        self._theta: np.ndarray = least_squares(errors, near._theta if near else prior, loss="soft_l1").x

    def per_s(self, devices: int, batch: int) -> float:
        """Return the work per second of all devices."""
        launch, sample, step, slower = map(math.exp, self._theta)
        works = sample * batch / devices + step
        return float(batch / ((works**SHARPNESS + launch**SHARPNESS) ** (1 / SHARPNESS) * devices**slower))


class LeftOut(NamedTuple):
    """One measured point, predicted without it, or without all points of its number of devices."""

    point: Measured
    source: str  # of ERRORS_OF
    error: float  # logarithm of predicted by measured


def left_out(points: Sequence[Measured]) -> list[LeftOut]:
    """Return each point predicted from all others, and from those of other numbers of devices."""
    rows = list(grouped(points, lambda one: one.devices).values())
    found, curve = [], None
    for left in [*([one] for row in rows if len(row) > 1 for one in row), *rows]:
        kept = [one for one in points if one not in left]
        if len(kept) < FEWEST_POINTS - 1:
            continue
        curve = Curve(kept, curve)
        found += [LeftOut(one, source_of(kept, *one[:2]), math.log(curve.per_s(*one[:2]) / one.per_s)) for one in left]
    return found


def half_interval(errors: Iterable[LeftOut], source: str) -> float:
    """Return the half-width, as a logarithm, of the interval of a further point, by Student's t over errors around 0.

    The errors of a number of devices that was left out go together, and count as one. Infinite for fewer than two.
    """
    mine = [one for one in errors if one.source in ERRORS_OF[source]]
    groups = grouped(mine, lambda one: one.point.devices if source == OTHER_DEVICES else one.point)
    if len(groups) < 2:
        return math.inf
    squares = [statistics.fmean(one.error**2 for one in group) for group in groups.values()]
    return students_t(len(groups)) * math.sqrt(statistics.fmean(squares))


def source_of(points: Iterable[Measured], devices: int, batch: int) -> str:
    """Return which of the measured points predict a point."""
    row = [one.batch for one in points if one.devices == devices]
    if not row:
        return OTHER_DEVICES
    return BETWEEN if min(row) < batch < max(row) else BEYOND


def too_far(points: Iterable[Measured], devices: int, batch: int) -> str:
    """Return in what a point is further from the measured ones than FURTHEST times, in words; empty if it is not."""
    row: set[float] = {one.batch for one in points if one.devices == devices}
    asked: dict[str, tuple[float, set[float]]] = {"samples in a batch": (batch, row)}
    if not row:
        each = {point.batch / point.devices for point in points}
        asked = {
            "devices": (devices, {point.devices for point in points}),
            "samples per device": (batch / devices, each),
        }
    for words, (number, known) in asked.items():
        if min(max(number / measured, measured / number) for measured in known) > FURTHEST:
            measured = f"what was measured, {min(known):g} to {max(known):g}"
            return f"{number:g} {words} are not within {FURTHEST} times or half of {measured}"
    return ""
