"""Plot of runs over time: one panel for each point, with the value of each good run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from record.values import PER_DEVICE, value_at
from results.history import Timed
from results.points.repeats import point_of, variant_of
from results.show.plots.style import Chart, new_figure, style_of, styled

PANEL_IN = (7.0, 1.8)


@styled
def over_time(series: Sequence[Sequence[Timed]]) -> Chart:
    """Draw the throughput per device of each point's good runs over time."""
    figure, axes = new_figure((PANEL_IN[0], PANEL_IN[1] * len(series)), rows=len(series))
    for panel, runs in zip(axes, series, strict=True):
        good = [run for run in runs if run.record.is_good]
        days: Any = [datetime.fromtimestamp(run.time_s, timezone.utc) for run in good]
        panel.plot(days, [value_at(run.record, PER_DEVICE) for run in good], **style_of(0))
        first = runs[0].record
        panel.set_title(f"{first.system}, {point_of(first)}, {', '.join(variant_of(first))}", loc="left")
        panel.set_ylabel(f"{first.work_unit}/s\nper device")
    return Chart("history", "Throughput per device over time", "One panel for each point.", figure)
