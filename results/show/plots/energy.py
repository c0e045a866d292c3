"""Charts of energy and power."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from jpwr.trace.trace import Trace
from record.values import PER_DEVICE, WORK, rounded, value_at
from results.find.records import Record
from results.points.repeats import PointResults
from results.show.plots.style import (
    COLOURS,
    FULL,
    INK,
    OF_SYSTEM,
    PALE,
    SIZE_IN,
    Chart,
    Styles,
    legend_below,
    new_figure,
    styled,
    unit_of,
)
from results.verdicts.quality import energy_kind
from results.verdicts.ranking import fastest

MOST_ROWS = 2000  # of a trace in a plot


@styled
def pareto(results: Sequence[PointResults], styles: Styles) -> list[Chart]:
    """Draw energy of a million units over speed of a device: a chart for each kind of energy that two points have.

    A dotted line is the Pareto front; estimated energies have none.
    """
    from matplotlib.ticker import EngFormatter

    unit = unit_of(results)
    found: dict[str, list[tuple[str, float, float]]] = {}
    for one in results:
        kind, speed, work = energy_kind(one.any), one.value(PER_DEVICE), one.value(WORK)
        if kind and speed and work:
            found.setdefault(kind, []).append((one.system, speed, 1e6 / work))
    charts = []
    for index, (kind, points) in enumerate((kind, points) for kind, points in found.items() if len(points) > 1):
        figure, [axes] = new_figure()
        estimated = kind.startswith("Q0")
        for system in dict.fromkeys(system for system, _, _ in points):
            mine = [(x, y) for name, x, y in points if name == system]
            look = {**styles[system], "linestyle": "none", **({"markerfacecolor": "none"} if estimated else {})}
            axes.plot(*zip(*mine, strict=True), label=system, gid=f"{OF_SYSTEM}{system}", **look)
        words = [f"{len(points)} points"]
        if not estimated:
            front = _front([(x, y) for _, x, y in points])
            axes.plot(*zip(*front, strict=True), label="Pareto front", color=INK, linewidth=0.8, linestyle=":")
            ends = dict.fromkeys(f"{rounded(x)} {unit}/s at {rounded(y)} Wh" for x, y in (front[0], front[-1]))
            words.append(f"the Pareto front is {' to '.join(ends)}")
        axes.set_xlabel(f"{unit}/s per device")
        axes.set_ylabel(f"Wh per million {unit}")
        axes.set_xlim(0, 1.08 * max(x for _, x, _ in points))
        axes.set_ylim(0, 1.15 * max(y for _, _, y in points))
        axes.xaxis.set_major_formatter(EngFormatter())
        legend_below(figure, [axes])
        title = f"Speed against energy ({kind}): right and down is better"
        charts.append(Chart("pareto" if not index else f"pareto_{index}", title, "; ".join(words), figure))
    return charts


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto front: the points than which no other point is both faster and more efficient."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (-point[0], point[1])):
        if not front or y < front[-1][1]:
            front.append((x, y))
    return front[::-1]


@styled
def energy_by_scope(results: Sequence[PointResults], styles: Styles) -> Chart | None:
    """Draw the energy of a million units in each sampled scope, at each system's most efficient point."""
    found: dict[str, dict[str, float]] = {}
    colours: dict[str, str] = {}
    for system in dict.fromkeys(one.system for one in results):
        best = fastest((one for one in results if one.system == system), WORK)
        if best is None:
            continue
        record = best.any
        work = value_at(record, "metrics.measured_{unit}")
        scopes = vars(record.energy.sampled_by_scope) if record.energy else {}
        used = value_at(record, "energy.power_scope")
        kinds = {name.removesuffix("_wh"): value for name, value in scopes.items() if value}
        if work and kinds:
            name = f"{system} (used: {used})"
            found[name] = {scope: value / work * 1e6 for scope, value in kinds.items()}
            colours[name] = styles[system]["color"]
    if not any(len(scopes) > 1 for scopes in found.values()):
        return None
    names = list(dict.fromkeys(scope for scopes in found.values() for scope in scopes))
    figure, [axes] = new_figure((SIZE_IN[0], 1.2 + 0.25 * len(found) * len(names)))
    height = 0.8 / len(names)
    for index, scope in enumerate(names):
        there = [(place, name, scopes[scope]) for place, (name, scopes) in enumerate(found.items()) if scope in scopes]
        share = FULL - (FULL - PALE) * index / max(1, len(names) - 1)
        axes.barh(
            [place - 0.4 + (index + 0.5) * height for place, _, _ in there],
            [value for _, _, value in there],
            0.9 * height,
            color=[colours[name] for _, name, _ in there],
            alpha=share,
        )
        axes.barh([0], [0], color=INK, alpha=share, label=scope)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel(f"Wh per million {unit_of(results)}")
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper right", ncols=len(names))
    words = "; ".join(
        f"{name}: " + ", ".join(f"{scope} {rounded(value)} Wh" for scope, value in scopes.items())
        for name, scopes in found.items()
    )
    return Chart("scopes", "Energy by scope; scopes contain each other", words, figure)


@styled
def power_over_time(record: Record, traces: Iterable[Trace], title: str, name: str) -> Chart | None:
    """Draw the power of the channels that count, summed over each node, with the measured windows shaded."""
    import numpy as np

    used = {(channel.hostname, channel.name) for channel in value_at(record, "energy.channels") or []}
    figure, [axes] = new_figure()
    drawn = 0
    for trace in traces:
        windows = [window for window in record.windows if window.boot_id == trace.meta.get("boot_id")]
        hosts = {window.hostname for window in windows}
        mine = [series for series in trace.series() if any((host, series.info.name) in used for host in hosts)]
        if not windows or not mine or not all(any(map(math.isfinite, series.power_w)) for series in mine):
            continue
        start_s = min(window.start_s for window in windows)
        times_s = np.asarray(mine[0].times_s)
        total_w = np.zeros(len(times_s))
        for series in mine:
            power_w = np.asarray(series.power_w, dtype=float)
            known = np.isfinite(power_w)
            total_w += np.interp(times_s, np.asarray(series.times_s)[known], power_w[known])
        step = max(1, len(times_s) // MOST_ROWS)
        colour = COLOURS[drawn % len(COLOURS)]
        axes.plot(times_s[::step] - start_s, total_w[::step], label=", ".join(sorted(hosts)), color=colour, lw=0.8)
        for window in windows if not drawn else []:
            axes.axvspan(window.start_s - start_s, window.end_s - start_s, color=COLOURS[2], alpha=0.15, lw=0)
        drawn += 1
    if not drawn:
        return None
    axes.set_xlabel("time from the start of the measured window [s]")
    axes.set_ylabel("power of the node's channels [W]")
    axes.set_ylim(bottom=0)
    if drawn > 1:
        axes.legend()
    average_w = value_at(record, "energy.avg_power_w")
    words = f"The measured window is shaded: {rounded(average_w)} W on average, all nodes together."
    return Chart(name, f"Power over time: {title}", words, figure)
