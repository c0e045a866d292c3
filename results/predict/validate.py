"""Validation of predictions: their errors for measured points, and the share of intervals that hold the truth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from results.files.workloads import title_of
from results.predict.examples import examples, read_training
from results.predict.leave_out import DATASHEET, LEVELS, LeftOut, half_interval
from results.predict.predict import Group, published_errors, published_left_out
from results.predict.unmeasured import FEWEST_GROUPS, half_of, missed, missed_like, missed_of
from results.record.records import RecordError
from results.record.values import grouped

PUBLISHED = "published"
OURS = "these runs"
BENCHMARK = "llm_training"  # the only one with enough published points
SMALLEST = 1e-4  # lower limit of an error in a geometric mean, which an error of 0 would make 0


class Errors(NamedTuple):
    """Statistics of the errors of one level on one set of points, relative to the measured values."""

    level: str
    what: str  # what was left out, or the distance from the other points
    of: str
    points: int
    median: float
    geometric_mean: float
    mean: float
    percentile_90: float
    largest: float
    held: int | None  # number of intervals with the truth in them; None for too few errors


def errors_of(level: str, what: str, of: str, cases: Sequence[tuple[float, float]]) -> Errors:
    """Return the statistics of pairs of an error and the half-width of its interval, both logarithms."""
    sizes = sorted(abs(math.expm1(error)) for error, _ in cases)
    held = [abs(error) <= half for error, half in cases]
    return Errors(
        level,
        what,
        of,
        len(sizes),
        statistics.median(sizes),
        statistics.geometric_mean([max(one, SMALLEST) for one in sizes]),
        statistics.fmean(sizes),
        sizes[max(0, math.ceil(0.9 * len(sizes)) - 1)],
        sizes[-1],
        sum(held) if all(half < math.inf for _, half in cases) else None,
    )


def validated(groups: Iterable[Group] = ()) -> Iterator[Errors]:
    """Yield the errors of every level, on published points and on our own.

    Each interval is computed without any point of its system, as for a new system.
    """
    for benchmark in dict.fromkeys(name for name, _ in published_left_out()):
        theirs = {system: errors for (name, system), errors in published_left_out().items() if name == benchmark}
        yield from _by_distance(f"{title_of(benchmark)}, {PUBLISHED}", theirs)
    for group in groups:
        yield from _by_distance(f"{group}, {OURS}", {group.first.system: group.errors})


def _by_distance(of: str, errors: dict[str, list[LeftOut]]) -> Iterator[Errors]:
    for far, level in LEVELS.items():
        cases = [
            (one.error, half_interval(published_errors(far, system)))
            for system, mine in errors.items()
            for one in mine
            if one.distance == far
        ]
        if cases:
            yield errors_of(level, far, of, cases)


def validated_datasheets() -> Iterator[Errors]:
    """Yield the errors of datasheet predictions of published points, by source, precision and device.

    Each interval is computed without any point of the same source, hence from one group less than a prediction needs.
    """
    for (what, source, precision, device), mine in grouped(missed(examples(BENCHMARK)), lambda one: one[:4]).items():
        others = [one for one in examples(BENCHMARK) if one.source != source]
        half = half_of(missed_like(others, what, precision), FEWEST_GROUPS - 1)
        of = f"{title_of(BENCHMARK)}, {source}, {precision}, {device}"
        yield errors_of(DATASHEET, what, of, [(one.error, half) for one in mine])


def validated_points(path: Path) -> Iterator[Errors]:
    """Yield the errors for a user's points in the form of training.csv, predicted from all other published points.

    Raises RecordError for a file in another form.
    """
    asked = read_training(path)
    if not asked:
        raise RecordError(f"{path} has no dense decoder that was trained from scratch: there is nothing to predict")
    kept = [one for one in examples(BENCHMARK) if one not in asked]
    for (what, source, precision, device), mine in grouped(missed_of(kept, asked), lambda one: one[:4]).items():
        half = half_of(missed_like(kept, what, precision))
        of = f"{path.name}, {source}, {precision}, {device}"
        yield errors_of(DATASHEET, what, of, [(one.error, half) for one in mine])
