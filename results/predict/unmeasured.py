"""Experimental: prediction for a system or model without measurements, from datasheets and points of others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from results.points.estimate import students_t
from results.predict.datasheet import Datasheet, Example, Hardware
from results.predict.examples import examples
from results.predict.predict import PredictionError
from results.predict.step_work import Work
from results.record.values import grouped

OWN = "these runs"
PRECISIONS = ("bf16", "fp16", "fp8")  # of the published points
# Least number of groups that were left out together, and of errors, for an interval that can be validated.
FEWEST_GROUPS, FEWEST_ERRORS = 3, 19
KNOWN_SOFTWARE, OTHER_SOFTWARE = "another device, software known", "software of which no point is known"
LEFT_OUT: dict[str, Callable[[Example], tuple[str, ...]]] = {
    KNOWN_SOFTWARE: lambda one: (one.source, one.hardware.name),
    OTHER_SOFTWARE: lambda one: (one.source,),
}


class Missed(NamedTuple):
    """A measured point that was predicted without its device in the same source, or without its source."""

    what: str
    source: str
    precision: str
    device: str
    error: float  # logarithm of predicted over measured throughput

    @property
    def group(self) -> tuple[str, ...]:
        """Key of the points that were left out together and share their error."""
        return (self.source, self.device) if self.what == KNOWN_SOFTWARE else (self.source,)


@cache
def missed(known: tuple[Example, ...]) -> list[Missed]:
    """Return every point predicted without its device, and without its source, if any points are left for it."""
    results = []
    for what, group in LEFT_OUT.items():
        for asked in dict.fromkeys(map(group, known)):
            kept = [one for one in known if group(one) != asked]
            errors = missed_of(kept, [one for one in known if group(one) == asked]) if kept else []
            results += [one for one in errors if one.what == what]
    return results


def missed_of(kept: Sequence[Example], left: Iterable[Example]) -> list[Missed]:
    """Return points, each predicted from the points in `kept`."""
    sheet, software = Datasheet(kept), {one.software for one in kept}
    return [
        Missed(
            KNOWN_SOFTWARE if one.software in software else OTHER_SOFTWARE,
            one.source,
            one.hardware.precision,
            one.hardware.name,
            math.log(one.step_s / sheet.step_s(one.work, one.hardware, one.devices, one.source)),
        )
        for one in left
    ]


def missed_like(known: Iterable[Example], what: str, precision: str) -> list[Missed]:
    """Return the points in a precision that were predicted in one way."""
    return [one for one in missed(tuple(known)) if (one.what, one.precision) == (what, precision)]


def half_of(errors: Iterable[Missed], fewest: int = FEWEST_GROUPS) -> float:
    """Return the half-width of the interval of a logarithm, by Student's t over groups that were left out together.

    Errors within a group are correlated, so each group counts as one error around 0: the root of the mean square of its
    points. Infinite for fewer than `fewest` groups.
    """
    groups = grouped(errors, lambda one: one.group)
    if len(groups) < fewest:
        return math.inf
    squares = [statistics.fmean(one.error**2 for one in group) for group in groups.values()]
    spread = math.sqrt(statistics.fmean(squares))
    return students_t(len(groups)) * spread


class Step(NamedTuple):
    """A predicted step: its time, the half-width of its logarithm's interval, and what was left out to estimate it."""

    step_s: float
    half: float
    what: str


def predict_step(benchmark: str, work: Work, hardware: Hardware, devices: int, own: Sequence[Example] = ()) -> Step:
    """Predict a step on a device from its datasheet; raises PredictionError if too few points are known."""
    known = (*examples(benchmark), *own)
    is_known = (OWN, hardware.precision) in {one.software for one in own}
    what = KNOWN_SOFTWARE if is_known else OTHER_SOFTWARE
    errors = missed_like(known, what, hardware.precision)
    half = half_of(errors)
    if half == math.inf or len(errors) < FEWEST_ERRORS:
        groups = len({one.group for one in errors})
        raise PredictionError(
            f"{hardware.name} in {hardware.precision} was asked for by its datasheet, but only {len(errors)} points of "
            f"{groups} {'devices' if is_known else 'sources'} are known to estimate the error: measure on it, or "
            f"give at least {FEWEST_ERRORS} points in this precision on {FEWEST_GROUPS} other systems"
        )
    return Step(Datasheet(known).step_s(work, hardware, devices, OWN), half, what)
