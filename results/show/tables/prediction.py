"""Predictions as a table."""

from __future__ import annotations

from collections.abc import Sequence

from results.files.quantities import QUANTITIES, quantities
from results.predict.predict import Prediction
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
