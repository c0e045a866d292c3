"""Operating points, drawn: speed against work per energy, and both over the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from results.points.estimate import Estimate
from results.points.operating import OperatingPoint, Sweep, sweeps_of
from results.points.repeats import PointResults
from results.record.values import rounded
from results.show.plots.style import COLOURS, INK, Chart, legend_below, new_figure, style_of, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPEED, WORK = "speed", "work per energy"


def operating_charts(results: Sequence[PointResults]) -> list[Chart]:
    """Return two charts of all sweeps of a workload; none without a sweep with energies."""
    sweeps = [sweep for sweep in sweeps_of(results) if sweep.choice()]
    return [_speed_against_work(sweeps), *_over_limit(sweeps)] if sweeps else []


def _name(sweep: Sweep, sweeps: Sequence[Sweep]) -> str:
    one = sweep.full.results
    places = {other.full.results.point.place for other in sweeps}
    return f"{one.system}, {one.point.place}" if len(places) > 1 else one.system


def _percent(ratio: Estimate | None) -> tuple[float, tuple[float, float]]:
    if ratio is None:
        return float("nan"), (0.0, 0.0)
    value = 100 * ratio.value
    if ratio.interval is None:
        return value, (0.0, 0.0)
    return value, (max(0.0, value - 100 * ratio.interval.low), max(0.0, 100 * ratio.interval.high - value))


@styled
def _speed_against_work(sweeps: Sequence[Sweep]) -> Chart:
    figure, [axes] = new_figure((6.4, 4.2))
    words = []
    for index, sweep in enumerate(sweeps):
        label, style = _name(sweep, sweeps), style_of(index) | {"linestyle": "none"}
        for one in sweep.points:
            (x, x_ends), (y, y_ends) = _percent(one.speed), _percent(one.work)
            xerr, yerr = ([[low], [high]] for low, high in (x_ends, y_ends))
            axes.errorbar([x], [y], xerr=xerr, yerr=yerr, label=label, elinewidth=0.8, **style)
            # Names of clocks below, of power limits above: neighbours are often one of each.
            below = {"xytext": (-4, -9), "ha": "right"} if one.limits.clock_mhz else {"xytext": (4, 4), "ha": "left"}
            axes.annotate(str(one.limits), (x, y), textcoords="offset points", fontsize=6, **below)  # type: ignore[arg-type]
            words.append(f"{label} at {one.limits}: work per energy {rounded(y)} %, speed {rounded(x)} %")
    for value in (95, 97):
        axes.axvline(value, color=INK, linewidth=0.6, linestyle=":")
    axes.set_xlabel("speed, in percent of full speed")
    axes.set_ylabel("work per energy, in percent of that at full speed")
    axes.margins(0.12)
    legend_below(figure, [axes])
    return Chart("operating_points", "Operating points: right and up is better", "; ".join(words), figure)


@styled
def _over_limit(sweeps: Sequence[Sweep]) -> list[Chart]:
    """Return speed and work per energy over the power limit and over the clock, each if it was swept."""
    kinds = {
        "power limit [W]": [[(one.limits.power_w, one) for one in _along(sweep, "power_w")] for sweep in sweeps],
        "clock limit [MHz]": [[(one.limits.clock_mhz, one) for one in _along(sweep, "clock_mhz")] for sweep in sweeps],
    }
    swept = {
        title: lines for title, lines in kinds.items() if any(len({at for at, _ in line if at}) > 1 for line in lines)
    }
    if not swept:
        return []
    figure, all_axes = new_figure((6.4, 3.4), columns=len(swept))
    words = []
    for axes, (title, lines) in zip(all_axes, swept.items(), strict=True):
        for index, (sweep, line) in enumerate(zip(sweeps, lines, strict=True)):
            known = sorted(((at, one) for at, one in line if at), key=lambda pair: pair[0])
            _draw(axes, known, _name(sweep, sweeps), index)
            name = _name(sweep, sweeps)
            words += [f"{name} at {one.limits}: speed {_percent(one.speed)[0]:.1f} %" for _, one in known]
        axes.set_xlabel(title)
        axes.set_ylabel("percent of full speed's")
    legend_below(figure, all_axes)
    return [Chart("over_limit", "Speed and work per energy over the limit", "; ".join(words), figure)]


def _along(sweep: Sweep, name: str) -> list[OperatingPoint]:
    """Return the points that differ from full speed in one kind of limit alone."""
    other = "clock_mhz" if name == "power_w" else "power_w"
    return [one for one in sweep.points if getattr(one.limits, other) == getattr(sweep.full.limits, other)]


def _draw(axes: Axes, points: Sequence[tuple[float, OperatingPoint]], name: str, index: int) -> None:
    for quantity, line, colour in ((SPEED, "-", 0), (WORK, "--", 1)):
        values = [_percent(one.speed if quantity == SPEED else one.work) for _, one in points]
        axes.errorbar(
            [at for at, _ in points],
            [value for value, _ in values],
            yerr=[[low for _, (low, _) in values], [high for _, (_, high) in values]],
            label=f"{name}, {quantity}",
            linestyle=line,
            color=COLOURS[(2 * index + colour) % len(COLOURS)],
            marker="os"[colour],
            markersize=4,
            elinewidth=0.8,
        )
