"""A sweep, drawn: over batch sizes and numbers of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from results.plots.style import (
    INK,
    Chart,
    Quantity,
    error_bars,
    is_estimate,
    legend_below,
    new_figure,
    say_empty,
    style_of,
    styled,
    styles_of_systems,
    unit_of,
)
from results.points.repeats import PointResults, Summary
from results.tables.published import Throughput
from results.values import PER_DEVICE, THROUGHPUT, devices_text, rounded
from results.verdicts.ranking import fastest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOO_NEAR = 1.3  # of batch sizes, the larger by the smaller
SQUASHED = 10  # by so much theirs may be above ours until ours lie on the axis


def lines(results: Sequence[PointResults], quantity: Quantity) -> dict[str, list[tuple[int, Summary]]]:
    """For each line's label its points (global batch size, value); only good runs, estimates labelled."""
    found: dict[str, list[tuple[int, Summary]]] = {}
    # Options are told only where a batch size was run with more than one set of them.
    places = Counter((one.system, one.point.devices, one.point.global_batch) for one in results if one.good)
    ambiguous = {(system, devices) for (system, devices, _), count in places.items() if count > 1}
    for one in results:
        summary = one.summary(quantity.path)
        if summary is None:
            continue
        label = f"{one.system}, {devices_text(one.point.devices)}"
        if (one.system, one.point.devices) in ambiguous:
            label += f", {', '.join(one.variant)}"
        if quantity.path.startswith("energy.") and is_estimate(one):
            label += " (ESTIMATED power)"
        found.setdefault(label, []).append((one.point.global_batch, summary))
    return {label: sorted(points) for label, points in found.items()}


@styled
def over_batch(results: Sequence[PointResults], quantity: Quantity, published: Sequence[Throughput] = ()) -> Chart:
    """One line per system and number of devices over the global batch size, with 95 % intervals."""
    from matplotlib.ticker import EngFormatter, NullFormatter

    figure, [axes] = new_figure()
    found = lines(results, quantity)
    batches = {batch for points in found.values() for batch, _ in points}
    words = []
    top = 0.0
    for index, (label, points) in enumerate(found.items()):
        values = [summary.median for _, summary in points]
        errors = list(zip(*(error_bars(summary) for _, summary in points), strict=True))
        axes.errorbar([batch for batch, _ in points], values, yerr=errors, capsize=3, label=label, **style_of(index))
        words.append(f"{label}: {' to '.join(dict.fromkeys(rounded(value) for value in (min(values), max(values))))}")
        top = max(top, *values)
    theirs: dict[str, list[tuple[int, float]]] = {}
    for one in published:
        theirs.setdefault(one.label, []).append((one.global_batch, one.units_per_s))
    highest = max((value for there in theirs.values() for _, value in there), default=0.0)
    squashed = highest > SQUASHED * top > 0
    for index, (label, there) in enumerate(theirs.items()):
        there.sort()
        style = {**style_of(index), "linestyle": ":", "markerfacecolor": "none", "alpha": 0.7, "linewidth": 1}
        axes.plot(*zip(*there, strict=True), label=label, **style)
    if batches or theirs:
        _batch_axis(axes, batches, {one.global_batch for one in published})
        axes.set_ylabel(quantity.label.format(unit=unit_of(results)))
        if squashed:
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_ylim(0, 1.1 * max(top, highest))
        axes.yaxis.set_major_formatter(EngFormatter())
        legend_below(figure, axes)
    else:
        say_empty(axes, "no run has this value")
    return Chart(quantity.name, f"{quantity.title} over batch size", "; ".join(words) or "No values.", figure)


def _batch_axis(axes: Axes, ours: Iterable[int], theirs: Iterable[int] = ()) -> None:
    """A tick at each batch size, except where it is only theirs and its number would cover another."""
    from matplotlib.ticker import NullFormatter

    ticks = set(ours)
    for batch in sorted(theirs):
        if all(max(batch, tick) > TOO_NEAR * min(batch, tick) for tick in ticks):
            ticks.add(batch)
    axes.set_xlabel("global batch size")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
    axes.xaxis.set_minor_formatter(NullFormatter())


@styled
def heat_map(title: str, cells: Mapping[tuple[int, int], float | str], unit: str, name: str) -> Chart:
    """A value for each (devices, global batch); a text in the place of a number says what failed."""
    devices, batches = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    figure, [axes] = new_figure((max(3.2, 0.62 * len(batches) + 1.2), max(1.5, 0.42 * len(devices) + 1.1)))
    draw_heat_map(axes, cells, devices, batches)
    axes.set_title(f"{title} [{unit}]")
    words = ", ".join(
        f"{devices_text(number)} at batch {batch}: {value if isinstance(value, str) else rounded(value)}"
        for (number, batch), value in sorted(cells.items())
    )
    return Chart(name, f"{title} over devices and batch size", words, figure)


def draw_heat_map(
    axes: Axes, cells: Mapping[tuple[int, int], float | str], devices: Sequence[int], batches: Sequence[int]
) -> None:
    """One cell for each (devices, global batch), as `heat_map` has them."""
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
    """Four characters or so: 947, 1.49k, 85.0k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def heat_map_of_system(results: Sequence[PointResults], system: str, name: str) -> Chart | None:
    """Throughput of one system over devices and batch, failed cells marked; None for a single row and column."""
    cells: dict[tuple[int, int], float | str] = {}
    for one in results:
        if one.system != system:
            continue
        place = (one.point.devices, one.point.global_batch)
        value = one.value(THROUGHPUT)
        status = "OOM" if any(record["status"] == "out_of_memory" for record in one.bad) else "failed"
        known = cells.get(place)
        if value is not None and (not isinstance(known, float) or value > known):
            cells[place] = value
        elif value is None:
            cells.setdefault(place, status)
    if len(cells) < 2:
        return None
    return heat_map(f"{system}: throughput", cells, f"{unit_of(results)}/s", name)


@styled
def scaling(results: Sequence[PointResults]) -> Chart | None:
    """Throughput per device relative to the fewest devices in the same precision, each at its best batch; None with one
    number of devices.
    """
    styles = styles_of_systems(results)
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for system, precision in dict.fromkeys((one.system, one.precision) for one in results):
        mine = [one for one in results if (one.system, one.precision) == (system, precision)]
        best = {
            number: best_one.value(PER_DEVICE)
            for number in sorted({one.point.devices for one in mine})
            if (best_one := fastest(one for one in mine if one.point.devices == number))
        }
        points = [(number, value) for number, value in best.items() if value]
        if len(points) > 1:
            found[system, precision] = [(number, 100 * value / points[0][1]) for number, value in points]
    if not found:
        return None
    several = {system for system, _ in found if len([one for one in found if one[0] == system]) > 1}
    figure, [axes] = new_figure()
    axes.axhline(100, color=INK, linewidth=0.8, linestyle=":")
    named = {
        f"{system}, {precision}" if system in several else system: (system, points)
        for (system, precision), points in found.items()
    }
    for title, (system, points) in named.items():
        axes.plot(*zip(*points, strict=True), label=title, **styles[system])
    _batch_axis(axes, {number for points in found.values() for number, _ in points})
    axes.set_xlabel("devices")
    axes.set_ylabel("scaling efficiency [%]")
    axes.set_ylim(0, 1.1 * max(100.0, *(value for points in found.values() for _, value in points)))
    axes.legend()
    words = "; ".join(
        f"{title}: " + ", ".join(f"{value:.0f} % on {number}" for number, value in points)
        for title, (_, points) in named.items()
    )
    return Chart("scaling", "Scaling: throughput per device, relative to the fewest devices", words, figure)
