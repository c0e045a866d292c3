"""Errors of predictions of measured points, each predicted without it; intervals are derived from them.

Points are left out in the ways in which users ask for points: between neighbours, beyond them, together with all others
of the same number of devices, or with all but the smallest and the largest batch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from results.points.estimate import CONFIDENCE
from results.predict.curve import FEWEST_POINTS, Curve, Measured

# Distance of a point from those that predict it, the nearest first.
BETWEEN = "between its neighbours"
SPARSE = "between batches further apart"
NEXT = "up to twice or half a batch"
BEYOND = "up to 4 times or a quarter of a batch"
DEVICES = "another number of devices"
SCALING = "another number of devices, where one was measured"
INTERPOLATED, CALIBRATED, DATASHEET = "interpolated", "calibrated", "datasheet (experimental)"
LEVELS = {BETWEEN: INTERPOLATED, **dict.fromkeys((SPARSE, NEXT, BEYOND, DEVICES, SCALING), CALIBRATED)}
FURTHEST = 4  # largest factor between the devices or batch and the measured ones
NEIGHBOURS = 4  # a batch is between its neighbours if the larger is at most this many times the smaller

# Limits of an outlier: the relative error of its prediction, and that error over the median error.
DISTURBED, DISTURBED_TIMES = 0.1, 8.0
FEWEST_TO_JUDGE = 4


class LeftOut(NamedTuple):
    """One measured point, predicted without it."""

    point: Measured
    distance: str
    error: float  # logarithm of predicted by measured
    kept: int  # points it was predicted from

    @property
    def share(self) -> float:
        """Error relative to the measured value."""
        return math.expm1(self.error)


def distance(points: Sequence[Measured], devices: int, batch: int) -> str:
    """Return the distance of a point from the measured ones; raises ValueError if it is too far for a curve."""
    numbers = {one.devices for one in points}
    batches = {one.batch for one in points if one.devices == devices or devices not in numbers}
    _check(devices, numbers, f"{devices} devices are")
    _check(batch, batches, f"batch {batch} is")
    if devices not in numbers:
        return DEVICES if len(numbers) > 1 else SCALING
    below = max((one for one in batches if one <= batch), default=None)
    above = min((one for one in batches if one >= batch), default=None)
    if below and above:
        return BETWEEN if above <= NEIGHBOURS * below else SPARSE
    nearest = below or above or batch
    return NEXT if max(batch, nearest) <= 2 * min(batch, nearest) else BEYOND


def _check(asked: int, measured: Collection[int], words: str) -> None:
    smallest, largest = min(measured), max(measured)
    if asked * FURTHEST < smallest or asked > largest * FURTHEST:
        known = str(smallest) if smallest == largest else f"{smallest} to {largest}"
        raise ValueError(f"{words} more than {FURTHEST} times above or below the measured {known}")


def left_out(points: Sequence[Measured]) -> list[LeftOut]:
    """Return every point predicted from others, in each way that leaves enough of them."""
    errors, curve = [], None
    for kept, asked in _ways(points):
        if len({one[:2] for one in kept}) < FEWEST_POINTS:
            continue
        curve = Curve(kept, near=curve)
        for one in asked:
            try:
                far = distance(kept, one.devices, one.batch)
            except ValueError:
                continue
            errors.append(LeftOut(one, far, math.log(curve.per_s(one.devices, one.batch) / one.per_s), len(kept)))
    return errors


def _ways(points: Sequence[Measured]) -> Iterator[tuple[list[Measured], list[Measured]]]:
    """Yield each split of the points: those to keep, and those to predict."""
    numbers = sorted({one.devices for one in points})
    rows = [sorted((one for one in points if one.devices == number), key=lambda one: one.batch) for number in numbers]
    for one in points:
        yield [other for other in points if other is not one], [one]
    for row in rows:
        if len(row) > 4:
            for end, next_to_it in ((row[0], row[1]), (row[-1], row[-2])):
                yield [one for one in points if one not in (end, next_to_it)], [end]
        if len(rows) > 2:
            yield [one for one in points if one.devices != row[0].devices], row
        yield row, [one for one in points if one.devices != row[0].devices]
    ends = [end for row in rows for end in {row[0], row[-1]}]
    yield ends, [one for one in points if one not in ends]


def half_interval(errors: Sequence[float]) -> float:
    """Return the half-width, as a logarithm, of the interval that holds the next error with probability CONFIDENCE.

    The split-conformal quantile (Vovk, Gammerman and Shafer 2005; Lei et al. 2018, arXiv:1604.04173, section 2.2) of
    errors of points at the same distance. Infinite for fewer than 19.
    """
    rank = math.ceil((len(errors) + 1) * CONFIDENCE)
    return sorted(map(abs, errors))[rank - 1] if rank <= len(errors) else math.inf


def disturbed(errors: Sequence[LeftOut], points: int) -> list[LeftOut]:
    """Return the outliers among the points; of two neighbouring outliers, only the one with the larger error."""
    alone = [one for one in errors if one.kept == points - 1]
    if len(alone) < FEWEST_TO_JUDGE:
        return []
    usual = statistics.median(abs(one.error) for one in alone)
    outliers = []
    for one in alone:
        neighbours = [abs(other.error) for other in alone if _are_neighbours(one.point, other.point)]
        is_large = abs(one.error) > max(math.log1p(DISTURBED), DISTURBED_TIMES * usual)
        if is_large and abs(one.error) >= max(neighbours, default=0.0):
            outliers.append(one)
    return outliers


def _are_neighbours(one: Measured, other: Measured) -> bool:
    return one.devices == other.devices and max(one.batch, other.batch) <= 2 * min(one.batch, other.batch)
