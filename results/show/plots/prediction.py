"""Charts of predictions next to measurements: predictions are hollow, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from results.points.estimate import Interval
from results.predict.leave_out import FURTHEST
from results.predict.predict import FEWEST_POINTS, Group, Prediction, PredictionError, around
from results.record.values import THROUGHPUT, devices_text, rounded
from results.show.plots.style import GREY, SIZE_IN, Chart, Styles, legend_below, new_figure, styled
from results.show.plots.sweep import doublings_axis
from results.verdicts.ranking import best_by_devices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PREDICTED = "predicted"
BAND_ALPHA = 0.18
WIDE = 10  # times the smallest value: a narrower axis has too few of 1, 2, 5, 10, 20 ...
MOST_TICKS = 5
HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "linestyle": "none", "markersize": 5}


def beyond(group: Group) -> list[Prediction]:
    """Predict throughput on 2 and FURTHEST times the most devices measured, with the best batch per device there."""
    every = best_by_devices(group.results)
    if not every:
        return []
    best = every[max(every)].point
    found = []
    for times in (2, FURTHEST):
        try:
            found.append(group.predict(times * best.devices, times * best.global_batch))
        except PredictionError:
            break
    return found


@styled
def measured_against_predicted(groups: Sequence[Group], styles: Styles) -> Chart | None:
    """Draw each point's prediction by its neighbours over its measurement; None without enough points."""
    drawn = {
        group: [one for one in group.errors if one.kept == len(group.points) - 1]
        for group in groups
        if len(group.points) > FEWEST_POINTS
    }
    if not any(drawn.values()):
        return None
    figure, [axes] = new_figure(SIZE_IN)
    values: list[float] = []
    words = []
    for group, errors in drawn.items():
        system, label = group.first.system, _label(group, groups)
        measured = [one.point.per_s / one.point.devices for one in errors]
        predicted = [value * (1 + one.share) for value, one in zip(measured, errors, strict=True)]
        intervals = [around(value, group.half(one.distance)) for value, one in zip(predicted, errors, strict=True)]
        colour = styles[system]["color"]
        axes.errorbar(
            measured,
            predicted,
            yerr=_bars(predicted, intervals),
            label=label,
            color=colour,
            marker=styles[system]["marker"],
            elinewidth=0.8,
            **HOLLOW,
        )
        values += [*measured, *predicted]
        held = sum(one.low <= value <= one.high for value, one in zip(measured, intervals, strict=True))
        words.append(f"{label}: {held} of {len(errors)} intervals contain the measured value")
    ends = [min(values) / 1.1, max(values) * 1.1]
    axes.plot(ends, ends, color=GREY, linewidth=0.8, zorder=0)
    unit = groups[0].first.any.work_unit
    _logarithmic(axes, "x")
    _logarithmic(axes, "y")
    axes.set_xlabel(f"measured [{unit}/s per device]")
    axes.set_ylabel(f"{PREDICTED} by its neighbours\n[{unit}/s per device]")
    legend_below(figure, [axes])
    return Chart("measured_predicted", "Measured against predicted", "; ".join(words), figure)


@styled
def scaling_beyond(groups: Sequence[Group], styles: Styles) -> Chart | None:
    """Draw measured throughput over devices, and its prediction beyond, shaded; None without a prediction."""
    drawn = {group: found for group in groups if len(group.points) >= FEWEST_POINTS and (found := beyond(group))}
    if not drawn:
        return None
    figure, [axes] = new_figure(SIZE_IN)
    words = []
    ticks: set[int] = set()
    for group, predictions in drawn.items():
        system, label = group.first.system, _label(group, groups)
        colour, marker = styles[system]["color"], styles[system]["marker"]
        measured = {number: one.value(THROUGHPUT) or 0.0 for number, one in best_by_devices(group.results).items()}
        axes.plot(*zip(*measured.items(), strict=True), label=label, color=colour, marker=marker, markersize=5)
        numbers = [max(measured), *(one.point.devices for one in predictions)]
        ticks |= {*measured, *numbers}
        middle = [measured[numbers[0]], *(one.per_s for one in predictions)]
        lows = [middle[0], *(one.per_s_interval.low for one in predictions)]
        highs = [middle[0], *(one.per_s_interval.high for one in predictions)]
        axes.fill_between(numbers, lows, highs, color=colour, alpha=BAND_ALPHA, linewidth=0)
        axes.plot(numbers, middle, color=colour, linestyle=":", linewidth=1)
        axes.plot(numbers[1:], middle[1:], color=colour, marker=marker, label=f"{label}, {PREDICTED}", **HOLLOW)
        last = predictions[-1]
        interval = f"{rounded(last.per_s_interval.low)} to {rounded(last.per_s_interval.high)}"
        words.append(f"{label}, {devices_text(last.point.devices)}: {PREDICTED} {interval} {last.unit}/s")
    unit = groups[0].first.any.work_unit
    _logarithmic(axes, "y")
    doublings_axis(axes, ticks, "devices, with as many samples on each")
    axes.set_ylabel(f"{unit}/s")
    legend_below(figure, [axes])
    title = "Scaling beyond the measured sizes: predictions are hollow and shaded"
    return Chart("scaling_beyond", title, "; ".join(words), figure)


def _label(group: Group, groups: Sequence[Group]) -> str:
    """Return a group's system, with its precision and options where the system has several groups."""
    others = [one for one in groups if one.first.system == group.first.system and one is not group]
    return ", ".join([group.first.system, *([group.first.precision, *group.variant] if others else [])])


def _bars(values: Sequence[float], intervals: Sequence[Interval]) -> list[list[float]]:
    return [
        [value - one.low for value, one in zip(values, intervals, strict=True)],
        [one.high - value if math.isfinite(one.high) else 0.0 for value, one in zip(values, intervals, strict=True)],
    ]


def _logarithmic(axes: Axes, name: str) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

    axis = axes.xaxis if name == "x" else axes.yaxis
    axes.set(**{f"{name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high > WIDE * low else MaxNLocator(MOST_TICKS))
    axis.set_major_formatter(EngFormatter())
    axis.set_minor_formatter(NullFormatter())
