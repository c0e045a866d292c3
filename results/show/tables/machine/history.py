"""The history as a table: the last value of each series, the median of the last ones, their trend, and what changed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from results.history.changes import trend_of
from results.history.series import Series, changed_facts
from results.record.quantities import Quantity, quantities
from results.show.tables.cells import Amount, Cell, Table, rendered

COLUMNS = quantities(
    *("system", "workload", "devices", "global_batch", "variant", "quantity", "days", "last run", "last", "median"),
    *("trend [%/year]", Quantity("±"), "energy", "failed since"),
)


def history_text(series: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of series from their data, and below it what changed between their runs."""
    rows: list[list[Cell]] = []
    changes: dict[str, None] = {}  # once each, in their order
    for one in series:
        workload = [one[key] for key in ("benchmark", "model", "data", "sample") if one[key]]
        row = [one["system"], workload, one["devices"], one["global_batch"], one["variant"]]
        row += [f"{one['quantity']} [{one['unit']}]", one["days"], one["last_run"]]
        figures = (one[key] for key in ("last", "median", "trend_percent_per_year", "trend_half_width"))
        rows.append([*row, *map(Amount, figures), one["kind"], one["failed"] or None])
        changes |= {f"{one['system']}, {date}: {'; '.join(facts)}": None for date, facts in one["changes"].items()}
    return "\n".join([rendered(Table(COLUMNS, rows).filled(), "text"), *changes])


def history_data(series: Series, last: int) -> dict[str, Any]:
    """Return the figures of a series over its `last` days with runs, as data for JSON."""
    recent = series.observations[-last:]
    trend = trend_of([one.time_d for one in recent], [one.log for one in recent])
    pairs = {after.date: changed_facts(before, after) for before, after in pairwise(recent)}
    return {
        **series.data,
        "days": len(series.observations),
        "last_run": recent[-1].date if recent else "",
        "last": recent[-1].value if recent else None,
        "median": math.exp(statistics.median(one.log for one in recent)) if recent else None,
        "trend_percent_per_year": 100 * (trend.value - 1) if trend else None,
        "trend_half_width": 100 * trend.interval.half if trend and trend.interval else None,
        "changes": {date: facts for date, facts in pairs.items() if facts},
    }
