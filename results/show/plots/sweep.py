"""Charts of a sweep over batch sizes and numbers of devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from record.values import PER_DEVICE, THROUGHPUT, devices_text, rounded
from results.points.estimate import Estimate
from results.points.repeats import PointResults
from results.show.plots.style import (
    GREY,
    INK,
    OF_SYSTEM,
    SIZE_IN,
    Axis,
    Chart,
    Styles,
    error_bars,
    kinds_alike,
    legend_below,
    new_figure,
    styled,
    unit_of,
)
from results.verdicts.ranking import best_by_devices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Lines = dict[str, list[tuple[int, Estimate]]]  # of systems
PANEL_IN = 1.75  # height of a panel
TITLE_IN = 0.085  # width of a letter
MOST_TICKS = 6  # in a panel
THEIRS: dict[str, Any] = {
    "color": GREY,
    "marker": "o",
    "linestyle": ":",
    "markerfacecolor": "none",
    "markersize": 4,
    "linewidth": 0.8,
}


def lines(results: Sequence[PointResults], quantity: Axis) -> dict[int, Lines]:
    """Return by number of devices each system's points (global batch size, value) at its best options."""
    best: dict[tuple[int, str, int], Estimate] = {}
    for one in results:
        estimate = one.estimate(quantity.path)
        place = (one.point.devices, one.system, one.point.global_batch)
        if estimate and (place not in best or estimate.value > best[place].value):
            best[place] = estimate
    found: dict[int, Lines] = {}
    for (devices, system, batch), estimate in sorted(best.items()):
        found.setdefault(devices, {}).setdefault(system, []).append((batch, estimate))
    return found


@styled
def over_batch(results: Sequence[PointResults], quantity: Axis, styles: Styles) -> list[Chart]:
    """Draw a quantity over the global batch size: a line for each system, a panel for each number of devices.

    Returns a chart for each precision and kind of energy, none if no run has the quantity. Error bars are 95 %
    intervals.
    """
    groups = kinds_alike([one for one in results if one.estimate(quantity.path)], quantity.path.startswith("energy."))
    charts = []
    for index, (kind, mine) in enumerate(groups.items()):
        name = quantity.name if not index else f"{quantity.name}_{index}"
        title = f"{quantity.title} over batch size" + (f": {kind}" if len(groups) > 1 else "")
        charts.append(_panels(mine, quantity, styles, name, title))
    return charts


def _panels(
    results: Sequence[PointResults],
    quantity: Axis,
    styles: Styles,
    name: str,
    title: str,
) -> Chart:
    found = lines(results, quantity)
    count = len(found)
    columns = min(2, count)
    rows = -(-count // columns)
    height_in = SIZE_IN[1] if count == 1 else PANEL_IN * rows + 0.4
    figure, panels = new_figure((SIZE_IN[0], height_in), rows, columns, share=True)
    for axes, (devices, of_systems) in zip(panels, found.items(), strict=False):
        _draw(axes, of_systems, styles)
        axes.set_title(devices_text(devices) if count > 1 else "")
    ours = {
        system: [estimate.value for of_systems in found.values() for _, estimate in of_systems.get(system, [])]
        for system in dict.fromkeys(system for of_systems in found.values() for system in of_systems)
    }
    batches = {batch for of_systems in found.values() for points in of_systems.values() for batch, _ in points}
    for index, axes in enumerate(panels):
        if index >= count:
            axes.set_axis_off()
            continue
        doublings_axis(axes, batches)
        axes.tick_params(labelbottom=True)
        if not index % columns:
            axes.set_ylabel(quantity.label.format(unit=unit_of(results)))
    _value_axis(panels[0], max(map(max, ours.values())))
    legend_below(figure, panels[:count])
    words = [
        f"{system}: {' to '.join(dict.fromkeys(rounded(end(values)) for end in (min, max)))}"
        for system, values in ours.items()
    ]
    return Chart(name, title, "; ".join(words), figure)


def _draw(axes: Axes, of_systems: Lines, styles: Styles) -> None:
    for system, points in of_systems.items():
        values = [estimate.value for _, estimate in points]
        errors = list(zip(*(error_bars(estimate) for _, estimate in points), strict=True))
        batches = [batch for batch, _ in points]
        line, caps, bars = axes.errorbar(batches, values, yerr=errors, capsize=2, label=system, **styles[system])
        for artist in (line, *caps, *bars):
            artist.set_gid(f"{OF_SYSTEM}{system}")


def _value_axis(axes: Axes, top: float) -> None:
    """Scale the axis from 0."""
    from matplotlib.ticker import EngFormatter

    axes.set_ylim(0, 1.1 * top)
    axes.yaxis.set_major_formatter(EngFormatter())


def doublings_axis(axes: Axes, batches: Iterable[int], label: str = "global batch size") -> None:
    """Set ticks at batch sizes or numbers of devices, as many as fit."""
    from matplotlib.ticker import NullFormatter

    every = sorted(set(batches))
    ticks = every[:: -(-len(every) // MOST_TICKS)]
    axes.set_xlabel(label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())


@styled
def heat_map(title: str, cells: Mapping[tuple[int, int], float | str], unit: str, name: str) -> Chart:
    """Draw a value for each (devices, global batch); a text in place of a number names the failure."""
    devices, batches = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    heading = f"{title} [{unit}]"
    width_in = max(3.2, 0.62 * len(batches) + 1.2, TITLE_IN * len(heading) + 1.0)
    figure, [axes] = new_figure((width_in, max(1.5, 0.42 * len(devices) + 1.1)))
    draw_heat_map(axes, cells, devices, batches)
    axes.set_title(heading)
    words = ", ".join(
        f"{devices_text(number)} at batch {batch}: {value if isinstance(value, str) else rounded(value)}"
        for (number, batch), value in sorted(cells.items())
    )
    return Chart(name, f"{title} over devices and batch size", words, figure)


def draw_heat_map(
    axes: Axes, cells: Mapping[tuple[int, int], float | str], devices: Sequence[int], batches: Sequence[int]
) -> None:
    """Draw the cells of a `heat_map` on given axes."""
    import matplotlib as mpl
    from matplotlib.patches import Rectangle

    numbers = [value for value in cells.values() if not isinstance(value, str)]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    colours = mpl.colormaps["cividis"]
    axes.set_xlim(-0.5, len(batches) - 0.5)
    axes.set_ylim(-0.5, len(devices) - 0.5)
    for (number, batch), value in cells.items():
        x, y = batches.index(batch), devices.index(number)
        if isinstance(value, str):
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="////", edgecolor="#D55E00", lw=0.5))
            axes.text(
                x,
                y,
                value,
                ha="center",
                va="center",
                fontsize=6,
                bbox={"fc": "white", "ec": "none", "pad": 1},
                color="black",
            )
            continue
        shade = (value - low) / (high - low) if high > low else 0.5
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colours(shade), edgecolor="none"))
        axes.text(x, y, short(value), ha="center", va="center", fontsize=7, color="white" if shade < 0.55 else "black")
    axes.set_xticks(range(len(batches)), [str(batch) for batch in batches])
    axes.set_yticks(range(len(devices)), [str(number) for number in devices])
    axes.set_xlabel("global batch size")
    axes.set_ylabel("devices")
    axes.grid(False)


def short(value: float) -> str:
    """Return a number with three digits and its SI prefix, such as 947, 1.49k or 85k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def heat_map_of_system(results: Sequence[PointResults], system: str, name: str) -> Chart | None:
    """Draw the throughput of one system over devices and batch, failed points marked; None for a single point."""
    cells: dict[tuple[int, int], float | str] = {}
    for one in results:
        if one.system != system:
            continue
        place = (one.point.devices, one.point.global_batch)
        value = one.value(THROUGHPUT)
        status = "OOM" if any(record.status == "out_of_memory" for record in one.bad) else "failed"
        known = cells.get(place)
        if value is not None and (not isinstance(known, float) or value > known):
            cells[place] = value
        elif value is None:
            cells.setdefault(place, status)
    if len(cells) < 2:
        return None
    return heat_map(f"{system}: throughput", cells, f"{unit_of(results)}/s", name)


@styled
def scaling(results: Sequence[PointResults], styles: Styles) -> list[Chart]:
    """Draw throughput per device relative to the fewest devices, at the best batch of each number of devices.

    Returns a chart for each precision that was run on several numbers of devices.
    """
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for precision, alike in kinds_alike(results).items():
        for system in dict.fromkeys(one.system for one in alike):
            mine = [one for one in alike if one.system == system]
            points = [
                (number, value) for number, one in best_by_devices(mine).items() if (value := one.value(PER_DEVICE))
            ]
            if len(points) > 1:
                shares = [(number, 100 * value / points[0][1]) for number, value in points]
                found.setdefault(precision, {})[system] = shares
    charts = []
    for index, (precision, of_systems) in enumerate(found.items()):
        figure, [axes] = new_figure()
        axes.axhline(100, color=INK, linewidth=0.8, linestyle=":")
        for system, points in of_systems.items():
            axes.plot(*zip(*points, strict=True), label=system, gid=f"{OF_SYSTEM}{system}", **styles[system])
        every = [point for points in of_systems.values() for point in points]
        doublings_axis(axes, {number for number, _ in every}, "devices")
        axes.set_ylabel("scaling efficiency [%]")
        axes.set_ylim(0, 1.1 * max(100.0, *(value for _, value in every)))
        legend_below(figure, [axes])
        words = "; ".join(
            f"{system}: " + ", ".join(f"{value:.0f} % on {number}" for number, value in points)
            for system, points in of_systems.items()
        )
        title = "Scaling: throughput per device, relative to the fewest devices"
        title += f": {precision}" if len(found) > 1 else ""
        charts.append(Chart("scaling" if not index else f"scaling_{index}", title, words, figure))
    return charts
