"""Goodput of training as a table: best interval between checkpoints, useful time, and energy of failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from results.points.estimate import Estimate
from results.points.repeats import PointResults
from results.record.quantities import Quantity, Shown, quantities
from results.record.records import RecordError
from results.show.tables.cells import Amount, Cell, Table
from results.show.tables.point_columns import HALF
from results.show.tables.points import PLACE, place_of
from results.verdicts.goodput import Failures, Goodput, goodput_of
from results.verdicts.quality import energy_kind
from results.verdicts.requirements import Requirements

COLUMNS = quantities(
    *("interval_is", "checkpoint_interval_s", "checkpoint_interval_steps"),
    *("useful_percent", HALF, "failure_wh", HALF, "failures_wh_per_day", HALF, "energy is", "assumed"),
    Quantity("doubts", shown=Shown.DIFFERS),
)


def goodput_table(results: Sequence[PointResults], failures: Failures) -> Table:
    """Return a row per point with a checkpoint at its best interval, and one at the interval that is stated."""
    rows = [row for one in results if one.good for row in _rows(one, failures)]
    return Table([*PLACE, *COLUMNS], rows)


def needed_failures(requirements: Requirements) -> Failures:
    """Return the failures of a requirements file; raises RecordError without any."""
    if requirements.failures is None:
        raise RecordError("the requirements have no 'failures': add the block with mttf_h and restart_s")
    return requirements.failures


def _rows(one: PointResults, failures: Failures) -> Iterator[Sequence[Cell]]:
    at_best = replace(failures, interval_s=None)
    for words, stated in {"best": at_best, "stated": failures}.items():
        found = goodput_of(one, stated)
        if isinstance(found, Goodput) and (words == "best" or failures.interval_s):
            values = ((found.useful, 100.0), (found.failure_wh, 1.0), (found.wh_per_day, 1.0))
            yield [
                *place_of(one),
                *(words, Amount(found.interval_s), found.steps),
                *(cell for estimate, factor in values for cell in _cells(estimate, factor)),
                *(energy_kind(one.any) if found.failure_wh else None, at_best.words, [*map(str, found.doubts)]),
            ]


def _cells(found: Estimate | None, factor: float) -> tuple[Cell, Cell]:
    """Return a value, and the larger part of its interval."""
    if not found:
        return None, None
    ends = found.interval
    half = factor * max(found.value - ends.low, ends.high - found.value) if ends else None
    return Amount(factor * found.value, half), Amount(half, half)
