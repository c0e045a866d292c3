"""Predictions as a table, and outliers against neighbouring points as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from record.values import devices_text, rounded
from results.files.quantities import QUANTITIES, quantities
from results.predict.curve import disturbed
from results.predict.predict import Group, Prediction
from results.show.tables.cells import Cell, Table


def prediction_table(predictions: Sequence[Prediction]) -> Table:
    """Return a row per prediction, with the low and the high end of its interval."""
    value = QUANTITIES["work_per_s"]._replace(form="")
    ends = [value._replace(title=f"{end} {value.title}") for end in ("low", "high")]
    place = quantities("system", "model", "precision", "variant", "devices", "global_batch")
    rows: list[list[Cell]] = [
        [
            *(one.system, one.point.model, one.precision, one.variant, one.point.devices, one.point.global_batch),
            *(one.per_s, *one.interval, one.source),
        ]
        for one in predictions
    ]
    units = dict.fromkeys(one.unit for one in predictions)
    return Table([*place, value, *ends, *quantities("from")], rows, units=units)


def disturbed_words(group: Group) -> list[str]:
    """Return a sentence about each outlier against neighbouring points."""
    unit = group.first.any.work_unit
    return [
        f"{group}: {devices_text(one.point.devices)}, batch {one.point.batch}: outlier: {rounded(one.point.per_s)} "
        f"{unit}/s were measured, but neighbouring points give {rounded(one.point.per_s * math.exp(one.error))}: check "
        "its runs, or measure it again"
        for one in disturbed(group.errors)
    ]
