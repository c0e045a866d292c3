"""Predictions as a table, and outliers against neighbouring points as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from record.values import devices_text, rounded
from results.files.quantities import QUANTITIES, Quantity, Shown, quantities
from results.points.estimate import Interval
from results.predict.curve import disturbed
from results.predict.predict import Group, Prediction
from results.show.tables.cells import Amount, Cell, Table


def prediction_table(predictions: Sequence[Prediction]) -> Table:
    """Return a row per prediction."""
    ends = [end for name in ("work_per_s", "work_per_wh") for end in _with_ends(name)]
    speed, of_energy = ends[:3], ends[3:]
    power, source = quantities("W/device", "from")
    place = quantities("system", "model", "precision", "variant", "devices", "global_batch")
    columns = [*place, *speed, power._replace(shown=Shown.MORE), *of_energy, *quantities("energy"), source]
    rows: list[list[Cell]] = [
        [
            *(one.system, one.point.model, one.precision, one.variant, one.point.devices, one.point.global_batch),
            *_ends(one.per_s, one.per_s_interval),
            Amount(one.power_w),
            *_ends(one.per_wh, one.per_wh_interval),
            *(one.energy_kind, one.source),
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


def disturbed_words(group: Group) -> list[str]:
    """Return a sentence about each outlier against neighbouring points."""
    unit = group.first.any.work_unit
    return [
        f"{group}: {devices_text(one.point.devices)}, batch {one.point.batch}: outlier: {rounded(one.point.per_s)} "
        f"{unit}/s were measured, but neighbouring points give {rounded(one.point.per_s * math.exp(one.error))}: check "
        "its runs, or measure it again"
        for one in disturbed(group.errors)
    ]
