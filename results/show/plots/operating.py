"""Chart of operating points: speed against work per energy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from record.values import rounded
from results.points.estimate import Estimate
from results.points.operating import Sweep, sweeps_of
from results.points.repeats import PointResults
from results.show.plots.style import Chart, Styles, legend_below, new_figure, style_of, styled

SIDES = {True: {"xytext": (-4, -9), "ha": "right"}, False: {"xytext": (4, 4), "ha": "left"}}


def operating_charts(results: Sequence[PointResults], styles: Styles) -> list[Chart]:
    """Return a chart of all sweeps of a workload; none without a sweep with measured energies."""
    sweeps = [sweep for sweep in sweeps_of(results) if sweep.is_measured]
    return [_speed_against_work(sweeps, styles)] if sweeps else []


def _look(sweep: Sweep, index: int, styles: Styles) -> dict[str, Any]:
    """Return the colour of the sweep's system, and a marker and a line of the sweep's own."""
    return style_of(index) | {"color": styles[sweep.full.results.system]["color"]}


def _percent(ratio: Estimate | None) -> tuple[float, list[float]]:
    """Return a ratio and the lengths of its error bar, down and up, in percent."""
    if ratio is None:
        return math.nan, [0.0, 0.0]
    low, high = ratio.interval or (ratio.value, ratio.value)
    return 100 * ratio.value, [100 * max(0.0, ratio.value - low), 100 * max(0.0, high - ratio.value)]


@styled
def _speed_against_work(sweeps: Sequence[Sweep], styles: Styles) -> Chart:
    """Draw each operating point by its speed and its work per energy, both relative to full speed."""
    figure, [axes] = new_figure((6.4, 4.2))
    words = []
    for index, sweep in enumerate(sweeps):
        for one in sweep.points:
            (x, x_bar), (y, y_bar) = _percent(one.speed), _percent(one.work)
            look = _look(sweep, index, styles) | {"linestyle": "none", "elinewidth": 0.8, "label": sweep.name}
            axes.errorbar([x], [y], xerr=[[end] for end in x_bar], yerr=[[end] for end in y_bar], **look)
            # Clock limits are named below their points and power limits above: neighbours are often one of each.
            side = SIDES[one.limits.clock_mhz is not None]
            axes.annotate(str(one.limits), (x, y), textcoords="offset points", fontsize=6, **side)  # type: ignore[arg-type]
            words.append(f"{sweep.name} at {one.limits}: work per energy {rounded(y)} %, speed {rounded(x)} %")
    axes.set_xlabel("speed, in percent of full speed")
    axes.set_ylabel("work per energy, in percent of that at full speed")
    axes.margins(0.2, 0.12)  # for the names
    legend_below(figure, [axes])
    return Chart("operating_points", "Operating points: right and up is better", "; ".join(words), figure)
