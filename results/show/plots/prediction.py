"""Chart of predictions next to measurements: predictions are hollow, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from record.values import THROUGHPUT, devices_text, rounded
from results.predict.curve import FURTHEST
from results.predict.predict import Group, PredictionError
from results.show.plots.style import SIZE_IN, Chart, Styles, legend_below, new_figure, styled
from results.show.plots.sweep import doublings_axis
from results.verdicts.ranking import best_by_devices

BAND_ALPHA = 0.18


@styled
def scaling_beyond(groups: Sequence[Group], styles: Styles) -> Chart | None:
    """Draw measured throughput over devices, and its prediction for FURTHEST times as many; None without one."""
    from matplotlib.ticker import EngFormatter, MaxNLocator, NullFormatter

    figure, [axes] = new_figure(SIZE_IN)
    words = []
    ticks: set[int] = set()
    for group in groups:
        best = best_by_devices(group.results)
        if not best:
            continue
        most = max(best)
        try:
            found = group.predict(FURTHEST * most, FURTHEST * best[most].point.global_batch)
        except PredictionError:
            continue
        label = _label(group, groups)
        colour, marker = (styles[group.first.system][name] for name in ("color", "marker"))
        measured = {number: one.value(THROUGHPUT) or 0.0 for number, one in best.items()}
        ends = [most, found.point.devices]
        ticks |= {*measured, *ends}
        axes.plot(*zip(*measured.items(), strict=True), label=label, color=colour, marker=marker, markersize=5)
        lows, highs = ([measured[most], end] for end in found.per_s_interval)
        axes.fill_between(ends, lows, highs, color=colour, alpha=BAND_ALPHA, linewidth=0)
        axes.plot(
            ends,
            [measured[most], found.per_s],
            color=colour,
            linestyle=":",
            linewidth=1,
            marker=marker,
            markersize=5,
            markerfacecolor="none",
            markevery=[1],
            label=f"{label}, predicted",
        )
        interval = " to ".join(rounded(end) for end in found.per_s_interval)
        words.append(f"{label}, {devices_text(found.point.devices)}: predicted {interval} {found.unit}/s")
    if not words:
        return None
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    doublings_axis(axes, ticks, "devices, with as many samples on each")
    axes.set_ylabel(f"{groups[0].first.any.work_unit}/s")
    legend_below(figure, [axes])
    title = "Scaling beyond the measured sizes: predictions are hollow and shaded"
    return Chart("scaling_beyond", title, "; ".join(words), figure)


def _label(group: Group, groups: Sequence[Group]) -> str:
    """Return a group's system, with its precision and options where the system has several groups."""
    others = [one for one in groups if one.first.system == group.first.system and one is not group]
    return ", ".join([group.first.system, *([group.first.precision, *group.variant] if others else [])])
