"""How far predictions are off, and how many intervals hold the truth: of points that were measured, each left out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from results.prediction.examples import examples, read_training
from results.prediction.leave_out import DATASHEET, LEVELS, LeftOut, half_interval
from results.prediction.predict import Group, published_errors, published_left_out
from results.prediction.unmeasured import KNOWN_SOFTWARE, OTHER_SOFTWARE, Missed, half_of, missed, missed_of
from results.records import RecordError
from results.workloads import title_of

PUBLISHED = "published"
OURS = "these runs"
BENCHMARKS = ("llm_training", "resnet50")  # of which enough was published
SMALLEST = 1e-4  # an error counts as at least this in a geometric mean, which one of 0 would make 0


class Errors(NamedTuple):
    """Of one level on one set of points; errors as shares of what was measured."""

    level: str
    what: str  # that was left out, or how far it was from the rest
    of: str
    points: int
    median: float
    geometric_mean: float
    mean: float
    percentile_90: float
    largest: float
    held: int | None  # intervals with the truth in them; None where too few errors make none


def errors_of(level: str, what: str, of: str, cases: Sequence[tuple[float, float]]) -> Errors:
    """Of pairs of an error and half of its interval, both logarithms."""
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
    """Of every level, on points that were published and on our own.

    The interval of each is made without any point of its system, so what they hold says what they hold of a new one.
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
    """Of what datasheets tell, on published points.

    An interval is made without any point of the same source; where there is one source alone, without its device.
    """
    for benchmark in BENCHMARKS:
        for what in (KNOWN_SOFTWARE, OTHER_SOFTWARE):
            found = [one for one in missed(benchmark) if one.what == what]
            sources = list(dict.fromkeys(one.source for one in found))
            halves: dict[tuple[str, ...], float] = {}
            for one in found:
                group = _left_out_with(one, sources)
                if group not in halves:
                    halves[group] = half_of([two for two in found if _left_out_with(two, sources) != group])
            for source in sources:
                mine = [one for one in found if one.source == source]
                cases = [(one.error, halves[_left_out_with(one, sources)]) for one in mine]
                yield errors_of(DATASHEET, what, f"{title_of(benchmark)}, {source}", cases)


def _left_out_with(one: Missed, sources: Sequence[str]) -> tuple[str, ...]:
    return (one.source,) if len(sources) > 1 else (one.source, one.device)


def validated_points(path: Path) -> Iterator[Errors]:
    """Of points that somebody else gives, in the form of training.csv, from what was published of all others.

    Raises RecordError for a file that is not of that form.
    """
    benchmark = BENCHMARKS[0]
    asked = read_training(path)
    if not asked:
        raise RecordError(f"{path} has no dense decoder that was trained from the start: there is nothing to predict")
    kept = [one for one in examples(benchmark) if one not in asked]
    known = {one.source for one in kept}
    for source in dict.fromkeys(one.source for one in asked):
        what = KNOWN_SOFTWARE if source in known else OTHER_SOFTWARE
        half = half_of([one for one in missed(benchmark) if one.what == what])
        found = missed_of(kept, [one for one in asked if one.source == source], what)
        yield errors_of(DATASHEET, what, f"{path.name}, {source}", [(one.error, half) for one in found])
