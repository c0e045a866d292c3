"""Charts of operating points: speed against work per energy, and both over the limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from results.points.estimate import Estimate
from results.points.operating import OperatingPoint, Sweep, sweeps_of
from results.points.repeats import PointResults
from results.record.values import rounded
from results.show.plots.style import INK, Chart, Styles, legend_below, new_figure, style_of, styled

AXES = {"power_w": "power limit [W]", "clock_mhz": "clock limit [MHz]"}
SIDES = {True: {"xytext": (-4, -9), "ha": "right"}, False: {"xytext": (4, 4), "ha": "left"}}


def operating_charts(results: Sequence[PointResults], styles: Styles) -> list[Chart]:
    """Return two charts of all sweeps of a workload; none without a sweep with energies."""
    sweeps = [sweep for sweep in sweeps_of(results) if sweep.choice()]
    return [_speed_against_work(sweeps, styles), _over_limit(sweeps, styles)] if sweeps else []


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
    for value in (95, 97):
        axes.axvline(value, color=INK, linewidth=0.6, linestyle=":")
    axes.set_xlabel("speed, in percent of full speed")
    axes.set_ylabel("work per energy, in percent of that at full speed")
    axes.margins(0.2, 0.12)  # for the names
    legend_below(figure, [axes])
    return Chart("operating_points", "Operating points: right and up is better", "; ".join(words), figure)


@styled
def _over_limit(sweeps: Sequence[Sweep], styles: Styles) -> Chart:
    """Draw speed and work per energy over each kind of limit that was swept, the other limit as at full speed."""
    lines = {
        (kind, index): sorted(
            ((getattr(one.limits, kind), one) for one in _along(sweep, kind)), key=lambda pair: pair[0]
        )
        for kind in AXES
        for index, sweep in enumerate(sweeps)
    }
    kinds = [kind for kind in AXES if any(len(lines[kind, index]) > 1 for index in range(len(sweeps)))] or list(AXES)
    figure, all_axes = new_figure((6.4, 3.4), columns=len(kinds))
    words = []
    for axes, kind in zip(all_axes, kinds, strict=True):
        for index, sweep in enumerate(sweeps):
            at = [limit for limit, _ in lines[kind, index]]
            for part, quantity in enumerate(("speed", "work per energy")):
                ratios = [one.work if part else one.speed for _, one in lines[kind, index]]
                values, bars = [_percent(one)[0] for one in ratios], [_percent(one)[1] for one in ratios]
                ends = [[bar[end] for bar in bars] for end in (0, 1)]
                label = f"{sweep.name}, {quantity}"
                look = _look(sweep, index, styles) | ({"markerfacecolor": "none", "linestyle": ":"} if part else {})
                axes.errorbar(at, values, yerr=ends, label=label, elinewidth=0.8, **look)
                known = (f"{value:.1f} % at {limit:g}" for limit, value in zip(at, values, strict=True))
                words.append(f"{label}: {', '.join(known)}")
        axes.set_xlabel(AXES[kind])
        axes.set_ylabel("percent of that at full speed")
    legend_below(figure, all_axes)
    return Chart("over_limit", "Speed (filled) and work per energy (hollow) over the limit", "; ".join(words), figure)


def _along(sweep: Sweep, kind: str) -> list[OperatingPoint]:
    other = next(one for one in AXES if one != kind)
    alike = [one for one in sweep.points if getattr(one.limits, other) == getattr(sweep.full.limits, other)]
    return [one for one in alike if getattr(one.limits, kind)]
