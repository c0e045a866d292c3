"""Predictions and their errors as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results.points.estimate import Interval
from results.predict.leave_out import LeftOut
from results.predict.predict import Group, Prediction
from results.predict.validate import Errors
from results.record.quantities import QUANTITIES, Quantity, Shown, quantities
from results.record.values import devices_text, rounded
from results.show.tables.cells import Amount, Cell, Table


def prediction_table(predictions: Sequence[Prediction]) -> Table:
    """Return a row per prediction."""
    effective, *ends = _with_ends("effective_work_per_s")
    *more, level = (one._replace(shown=Shown.MORE) for one in quantities(*ends, "W/device", "level"))
    place = quantities("system", "model", "precision", "variant", "devices", "global_batch")
    columns = [*place, *_with_ends("work_per_s"), effective, *more, *_with_ends("work_per_wh")]
    columns += quantities("energy", level, "from what was measured")
    rows: list[list[Cell]] = [
        [
            *(one.system, one.point.model, one.precision, one.variant, one.point.devices, one.point.global_batch),
            *_ends(one.per_s, one.per_s_interval),
            *_ends(one.effective_per_s, one.effective_interval),
            Amount(one.power_w),
            *_ends(one.per_wh, one.per_wh_interval),
            *(one.energy_kind, one.level, one.distance),
        ]
        for one in predictions
    ]
    return Table(columns, rows, units=dict.fromkeys(one.unit for one in predictions))


def _with_ends(name: str) -> list[Quantity]:
    one = QUANTITIES[name]
    return [one, *(one._replace(title=f"{end} {one.title}") for end in ("low", "high"))]


def _ends(value: float | None, interval: Interval | None) -> list[Cell]:
    half = interval.half if interval else None
    return [Amount(value, half), *(Amount(end, half) for end in interval or (None, None))]


def error_table(errors: Iterable[Errors]) -> Table:
    """Return a row per level and set of points; errors in percent."""
    titles = ("median [%]", "geometric mean [%]", "mean [%]", "90th percentile [%]", "largest [%]")
    percents = (Quantity(title, form=".1f") for title in titles)
    columns = quantities("level", "left out", "of", "N", *percents, "intervals that held the truth")
    rows: list[list[Cell]] = [
        [one.level, one.what, one.of, one.points, *(100 * value for value in one[4:9]), _held(one)] for one in errors
    ]
    return Table(columns, rows)


def _held(one: Errors) -> str:
    if one.held is None:
        return "refused: too few sources or devices"
    return f"{one.held} of {one.points} ({one.held / one.points:.0%})"


def disturbed_words(group: Group) -> list[str]:
    """Return a sentence about each outlier against neighbouring points."""
    return [_disturbed(group, one) for one in group.disturbed()]


def _disturbed(group: Group, one: LeftOut) -> str:
    place = f"{devices_text(one.point.devices)}, batch {one.point.batch}"
    measured = rounded(one.point.per_s)
    predicted = rounded(one.point.per_s * (1 + one.share))
    unit = group.first.any.work_unit
    return (
        f"{group}: {place}: outlier: {measured} {unit}/s were measured, but neighbouring points give "
        f"{predicted}: check its runs, or measure it again"
    )
