"""Goodput of training as a table: best interval between checkpoints, useful time, and energy of failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from results.points.estimate import Estimate
from results.points.repeats import PointResults
from results.record.quantities import Quantity, Shown, quantities
from results.show.tables.cells import Amount, Cell, Table
from results.show.tables.point_columns import HALF
from results.show.tables.points import PLACE, place_of
from results.verdicts.goodput import Failures, goodput_of
from results.verdicts.quality import energy_kind
from results.verdicts.requirements import Requirements

COLUMNS = quantities(
    *("interval_is", "checkpoint_interval_s", "checkpoint_interval_steps", "useful_percent", HALF),
    *("failure_wh", HALF, "failures_wh_per_day", HALF, "energy is", "assumed"),
    Quantity("doubts", shown=Shown.DIFFERS),
)


def goodput_table(results: Sequence[PointResults], requirements: Requirements) -> Table:
    """Return rows of the best and the stated interval, for each point and for the failures of each requirement."""
    stated = dict.fromkeys(one.failures for one in requirements.must if one.failures)
    rows = [row for one in results if one.good for failures in stated for row in _rows(one, failures)]
    return Table([*PLACE, *COLUMNS], rows)


def _rows(one: PointResults, failures: Failures) -> Iterator[Sequence[Cell]]:
    at_best = replace(failures, interval_s=None)
    for words, stated in {"best": at_best, **({"stated": failures} if failures.interval_s else {})}.items():
        if found := goodput_of(one, stated):
            values = ((found.useful, 100.0), (found.failure_wh, 1.0), (found.wh_per_day, 1.0))
            cells = [cell for estimate, factor in values for cell in _cells(estimate, factor)]
            facts = [energy_kind(one.any) if found.failure_wh else None, at_best.words, [*map(str, found.doubts)]]
            yield [*place_of(one), words, Amount(found.interval_s), found.steps, *cells, *facts]


def _cells(found: Estimate | None, factor: float) -> Sequence[Cell]:
    """Return a value, and the larger part of its interval."""
    ends = found.interval if found else None
    half = factor * max(found.value - ends.low, ends.high - found.value) if found and ends else None
    return [Amount(factor * found.value if found else None, half), Amount(half, half)]
