"""Rows of the history: the last value of each series, the median of the last ones, their trend, and what changed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from results.history.changes import trend_of
from results.history.series import Series, changed_facts
from results.record.values import Number

HEADER = ("system", "workload", "devices", "global batch", "options", "quantity", "days", "last run", "last", "median")


def history_rows(series: Sequence[Series], last: int, number: Number) -> list[list[str]]:
    """Return a header and a row for each series, over its `last` days with runs."""
    rows = [[*HEADER, "trend [%/year]", "±", "energy", "changes since"]]
    for one in series:
        data = history_data(one, last)
        trend, half = data["trend_percent_per_year"], data["trend_half_width"]
        workload = ", ".join(filter(None, one.point[:4]))
        row = [one.system, workload, str(one.point.devices), str(one.point.global_batch), ", ".join(one.variant)]
        row += [f"{one.quantity} [{one.unit}]", str(data["days"]), data["last_run"], number(data["last"])]
        row += [number(data["median"]), number(trend, half), number(half, half), one.kind]
        rows.append([*row, "; ".join(f"{date}: {', '.join(facts)}" for date, facts in data["changes"].items())])
    return rows


def history_data(series: Series, last: int) -> dict[str, Any]:
    """Return the figures of a series as data for JSON; a trend needs three days with runs."""
    recent = series.observations[-last:]
    trend = trend_of([one.time_d for one in recent], [one.log for one in recent])
    interval = trend.interval if trend else None
    changes = {
        after.date: facts
        for before, after in pairwise(recent)
        if (facts := changed_facts(before, after))
    }
    return {
        **series.data,
        "days": len(series.observations),
        "last_run": recent[-1].date,
        "last": recent[-1].value,
        "median": math.exp(statistics.median(one.log for one in recent)),
        "trend_percent_per_year": 100 * (trend.value - 1) if trend else None,
        "trend_half_width": 100 * interval.half if interval else None,
        "changes": changes,
    }
