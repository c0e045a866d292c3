"""All plots. Each function takes results and gives a matplotlib figure; a Chart is one with its words."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from jpwr.trace import Trace
from results.points import rounded
from results.published import PUBLISHED, Throughput
from results.quality import energy_kind, grade
from results.records import Record
from results.statistics import PointResults, Summary, compare_values
from results.table import devices_text, value_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Arguments = ParamSpec("Arguments")
Drawn = TypeVar("Drawn")
# Okabe and Ito's colours, which people with any kind of colour vision tell apart, and a marker beside each.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP*X"
# Stands for the colour of text in an SVG until the page decides: dark or light.
INK = "#010203"
SIZE_IN = (5.6, 3.6)
PIXELS_PER_PT = 1.25  # in a page
MOST_INSIDE, LEGEND_ROW_IN = 5, 0.17  # of a legend
LONG_LABEL = 44  # characters: two of these do not fit beside each other
TOO_NEAR = 1.3  # of batch sizes, the larger by the smaller
SQUASHED = 10  # by so much theirs may be above ours until ours lie on the axis
MOST_ROWS = 2000  # of a trace in a plot
STYLE: Any = {  # of matplotlib
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.alpha": 0.25,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "results",  # the same plot is the same file
    "hatch.linewidth": 0.6,
}


class Quantity(NamedTuple):
    """What is plotted: a number of a record, of which more is better."""

    name: str
    title: str
    label: str
    path: str


THROUGHPUT = Quantity("throughput", "Throughput", "{unit}/s", "metrics.{unit}_per_s")
EFFICIENCY = Quantity("efficiency", "Work per energy", "{unit}/Wh", "energy.{unit}_per_wh")
PER_DEVICE = "metrics.{unit}_per_s_per_device"


class Chart(NamedTuple):
    """A figure with its name, its title, and what it shows in words for those who cannot see it."""

    name: str
    title: str
    words: str
    figure: Figure

    def svg(self) -> str:
        """For the inside of a page: in the page's colour and font size, with the words as its description."""
        import matplotlib as mpl

        file = io.StringIO()
        with mpl.rc_context(STYLE):
            self.figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        text = file.getvalue()
        text = text[text.index("<svg") :].replace(INK, "currentColor")
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        # Two plots of one page must not share the names of their parts.
        text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{self.name}-", text)
        text = re.sub(r'width="([\d.]+)pt" height="[^"]*"', self._width, text, count=1)
        label = f' role="img" aria-label="{escape(f"{self.title}. {self.words}", quote=True)}"'
        return text.replace("<svg", f"<svg{label}", 1)

    @staticmethod
    def _width(found: re.Match[str]) -> str:
        return f'width="{float(found[1]) * PIXELS_PER_PT:.0f}"'

    def png(self) -> bytes:
        """For a document: on white."""
        import matplotlib as mpl

        file = io.BytesIO()
        with mpl.rc_context({**STYLE, "savefig.transparent": False}):
            self.figure.savefig(file, format="png", dpi=150, facecolor="white")
        return file.getvalue()


def new_figure(size_in: tuple[float, float] = SIZE_IN, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_in, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def styled(draw: Callable[Arguments, Drawn]) -> Callable[Arguments, Drawn]:
    """A function that draws in the style of all our plots."""

    @wraps(draw)
    def in_style(*arguments: Arguments.args, **options: Arguments.kwargs) -> Drawn:
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            return draw(*arguments, **options)

    return in_style


def _empty(axes: Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes)
    axes.set_axis_off()


def _style(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        # Shifted where the colours and marks would come together again.
        "marker": MARKERS[(index + index // math.lcm(len(COLOURS), len(MARKERS))) % len(MARKERS)],
        "linestyle": ("-", "--", "-.")[index // len(COLOURS) % 3],
        "markersize": 5,
    }


def _of_systems(results: Iterable[PointResults]) -> dict[str, dict[str, Any]]:
    """A style for each system, the same in all plots of a workload."""
    return {system: _style(index) for index, system in enumerate(dict.fromkeys(one.system for one in results))}


def _unit(results: Sequence[PointResults]) -> str:
    return str(results[0].any["work_unit"])


def _is_estimate(results: PointResults) -> bool:
    return any(grade(record) == "Q0" for record in results.good)


def _bars(summary: Summary) -> tuple[float, float]:
    """From the median down and up to the ends of the interval; nothing for a single run."""
    if summary.low is None or summary.high is None:
        return 0.0, 0.0
    return max(0.0, summary.median - summary.low), max(0.0, summary.high - summary.median)


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
        if quantity.path.startswith("energy.") and _is_estimate(one):
            label += " (ESTIMATED power)"
        found.setdefault(label, []).append((one.point.global_batch, summary))
    return {label: sorted(points) for label, points in found.items()}


def _legend(figure: Figure, axes: Axes) -> None:
    """Ours first, and theirs; inside where it is short, else below, in a figure that grows by it."""
    pairs = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda pair: pair[1].startswith(PUBLISHED))
    handles, labels = [handle for handle, _ in pairs], [label for _, label in pairs]
    if len(labels) <= MOST_INSIDE:
        axes.legend(handles, labels)
        return
    columns = 1 if max(map(len, labels)) > LONG_LABEL else 2
    width_in, height_in = figure.get_size_inches()
    figure.set_size_inches(width_in, height_in + LEGEND_ROW_IN * -(-len(labels) // columns))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


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
        errors = list(zip(*(_bars(summary) for _, summary in points), strict=True))
        axes.errorbar([batch for batch, _ in points], values, yerr=errors, capsize=3, label=label, **_style(index))
        words.append(f"{label}: {' to '.join(dict.fromkeys(rounded(value) for value in (min(values), max(values))))}")
        top = max(top, *values)
    theirs: dict[str, list[tuple[int, float]]] = {}
    for one in published:
        theirs.setdefault(one.label, []).append((one.global_batch, one.units_per_s))
    highest = max((value for there in theirs.values() for _, value in there), default=0.0)
    squashed = highest > SQUASHED * top > 0
    for index, (label, there) in enumerate(theirs.items()):
        there.sort()
        style = {**_style(index), "linestyle": ":", "markerfacecolor": "none", "alpha": 0.7, "linewidth": 1}
        axes.plot(*zip(*there, strict=True), label=label, **style)
    if batches or theirs:
        _batch_axis(axes, batches, {one.global_batch for one in published})
        axes.set_ylabel(quantity.label.format(unit=_unit(results)))
        if squashed:
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_ylim(0, 1.1 * max(top, highest))
        axes.yaxis.set_major_formatter(EngFormatter())
        _legend(figure, axes)
    else:
        _empty(axes, "no run has this value")
    return Chart(quantity.name, f"{quantity.title} over batch size", "; ".join(words) or "No values.", figure)


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
        value = one.value(THROUGHPUT.path)
        status = "OOM" if any(record["status"] == "out_of_memory" for record in one.bad) else "failed"
        known = cells.get(place)
        if value is not None and (not isinstance(known, float) or value > known):
            cells[place] = value
        elif value is None:
            cells.setdefault(place, status)
    if len(cells) < 2:
        return None
    return heat_map(f"{system}: throughput", cells, f"{_unit(results)}/s", name)


def fastest(results: Iterable[PointResults], path: str = PER_DEVICE) -> PointResults | None:
    """The point with the highest value, None where no point has one."""
    known = [(value, one) for one in results if (value := one.value(path)) is not None]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def best_of_systems(results: Sequence[PointResults], path: str) -> list[PointResults]:
    """The point with the highest value of each system that has one, the highest first."""
    systems = dict.fromkeys(one.system for one in results)
    best = [one for system in systems if (one := fastest((one for one in results if one.system == system), path))]
    return sorted(best, key=lambda one: one.value(path) or 0.0, reverse=True)


@styled
def scaling(results: Sequence[PointResults]) -> Chart | None:
    """Throughput per device relative to the fewest devices in the same precision, each at its best batch; None with one
    number of devices.
    """
    styles = _of_systems(results)
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


@styled
def pareto(results: Sequence[PointResults]) -> Chart | None:
    """Speed of a device against energy of a million units, with the front of each kind of measured energy."""
    from matplotlib.ticker import EngFormatter

    unit = _unit(results)
    points = [
        (one, speed, 1e6 / work)
        for one in results
        if (speed := one.value(PER_DEVICE)) and (work := one.value(EFFICIENCY.path))
    ]
    if len(points) < 2:
        return None
    figure, [axes] = new_figure()
    styles = _of_systems(results)
    for system, style in styles.items():
        for estimated in (False, True):
            mine = [(x, y) for one, x, y in points if one.system == system and _is_estimate(one) == estimated]
            if mine:
                look = {**style, "linestyle": "none", **({"markerfacecolor": "none"} if estimated else {})}
                axes.plot(*zip(*mine, strict=True), label=system + (" (ESTIMATED power)" if estimated else ""), **look)
    words = [f"{len(points)} points"]
    kinds = dict.fromkeys(energy_kind(one.any) or "" for one, _, _ in points if not _is_estimate(one))
    for index, kind in enumerate(kinds):
        front = _front([(x, y) for one, x, y in points if energy_kind(one.any) == kind])
        look = {"color": INK, "linewidth": 0.8, "linestyle": (":", "--", "-.")[index % 3]}
        axes.plot(*zip(*front, strict=True), label=f"front of {kind}", **look)
        ends = (f"{rounded(x)} {unit}/s at {rounded(y)} Wh" for x, y in (front[0], front[-1]))
        words.append(f"the front of {kind} goes from {' to '.join(ends)}")
    axes.set_xlabel(f"{unit}/s per device")
    axes.set_ylabel(f"Wh per million {unit}")
    axes.set_xlim(0, 1.08 * max(x for _, x, _ in points))
    axes.set_ylim(0, 1.15 * max(y for _, _, y in points))
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.legend()
    return Chart("pareto", "Speed against energy: right and down is better", "; ".join(words), figure)


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of which no other is faster and takes less."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (-point[0], point[1])):
        if not front or y < front[-1][1]:
            front.append((x, y))
    return front[::-1]


@styled
def ratios(results: Sequence[PointResults], path: str, title: str, name: str) -> Chart | None:
    """Each system at its best point over the system that is last, with 95 % intervals; None without two systems."""
    best = best_of_systems(results, path)
    if len(best) < 2:
        return None
    base = best[-1]
    found = [
        compare_values(*([value_at(record, path) for record in side.good] for side in (base, one))) for one in best
    ]
    errors = [
        [max(0.0, ratio.ratio - (ratio.low or ratio.ratio)) for ratio in found],
        [max(0.0, (ratio.high or ratio.ratio) - ratio.ratio) for ratio in found],
    ]
    figure, [axes] = new_figure((SIZE_IN[0], 0.9 + 0.38 * len(best)))
    names, values = [one.system for one in best], [ratio.ratio for ratio in found]
    bars = axes.barh(names, values, 0.6, xerr=errors, capsize=3, color=COLOURS[0], ecolor=INK)
    axes.bar_label(bars, [f"{ratio.ratio:.2f}" for ratio in found], padding=6, color=INK)
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.set_xlabel(f"times {base.system}")
    axes.grid(axis="y", visible=False)
    words = "; ".join(f"{one.system} {ratio}" for one, ratio in zip(best, found, strict=True))
    return Chart(name, f"{title}, each system at its best point", words, figure)


@styled
def compute_and_effective(
    results: Sequence[PointResults],
    published: Sequence[Throughput] = (),
    published_effective: Sequence[Throughput] = (),
) -> Chart | None:
    """Throughput on data that is there, and through the whole input path; None where that was not measured.

    Below ours, hollow, are those of others who published the second.
    """
    effective = "metrics.effective_{unit}_per_s"
    found = [one for one in results if one.value(effective) and one.value(THROUGHPUT.path)]
    if not found:
        return None
    figure, [axes] = new_figure((SIZE_IN[0], 1.2 + 0.5 * (len(found) + len(published_effective))))
    places = {one.place: len(found) + index for index, one in enumerate(published_effective)}
    for path, title, shift, colour, theirs in (
        (THROUGHPUT.path, "compute: data is on the device", -0.2, COLOURS[0], published),
        (effective, "effective: through the input path", 0.2, COLOURS[1], published_effective),
    ):
        summaries = [summary for one in found if (summary := one.summary(path))]
        errors = list(zip(*(_bars(summary) for summary in summaries), strict=True))
        axes.barh(
            [index + shift for index in range(len(found))],
            [summary.median for summary in summaries],
            0.36,
            xerr=errors,
            capsize=3,
            color=colour,
            ecolor=INK,
            label=title,
        )
        beside = [one for one in theirs if one.place in places]
        axes.barh(
            [places[one.place] + shift for one in beside],
            [one.units_per_s for one in beside],
            0.36,
            facecolor="none",
            edgecolor=colour,
            linestyle=":",
        )
    names = [f"{one.system}, {one.point.place}" for one in found]
    labels = [*names, *(f"{one.label}, batch {one.global_batch}" for one in published_effective)]
    axes.set_yticks(range(len(labels)), [label.replace(PUBLISHED, PUBLISHED.rstrip() + "\n") for label in labels])
    axes.invert_yaxis()
    axes.set_xlabel(f"{_unit(results)}/s")
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper right", ncols=2)
    words = "; ".join(
        f"{name}: {rounded(one.value(effective))} of {rounded(one.value(THROUGHPUT.path))}"
        for name, one in zip(names, found, strict=True)
    )
    return Chart("effective", "What reading data costs", words, figure)


@styled
def energy_by_scope(results: Sequence[PointResults]) -> Chart | None:
    """Energy of a million units in each scope that was sampled, of each system's most efficient point."""
    found: dict[str, dict[str, float]] = {}
    for system in dict.fromkeys(one.system for one in results):
        best = fastest((one for one in results if one.system == system), EFFICIENCY.path)
        if best is None:
            continue
        record = best.any
        work = value_at(record, "metrics.measured_{unit}")
        scopes = value_at(record, "energy.sampled_by_scope") or {}
        used = value_at(record, "energy.power_scope")
        kinds = {name.removesuffix("_wh"): value for name, value in scopes.items() if value}
        if work and kinds:
            found[f"{system} (used: {used})"] = {scope: value / work * 1e6 for scope, value in kinds.items()}
    if not any(len(scopes) > 1 for scopes in found.values()):
        return None
    names = list(dict.fromkeys(scope for scopes in found.values() for scope in scopes))
    figure, [axes] = new_figure((SIZE_IN[0], 1.2 + 0.25 * len(found) * len(names)))
    height = 0.8 / len(names)
    for index, scope in enumerate(names):
        places = [place for place, scopes in enumerate(found.values()) if scope in scopes]
        values = [scopes[scope] for scopes in found.values() if scope in scopes]
        axes.barh(
            [place - 0.4 + (index + 0.5) * height for place in places],
            values,
            0.9 * height,
            color=COLOURS[index % len(COLOURS)],
            label=scope,
        )
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel(f"Wh per million {_unit(results)}")
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper right", ncols=len(names))
    words = "; ".join(
        f"{name}: " + ", ".join(f"{scope} {rounded(value)} Wh" for scope, value in scopes.items())
        for name, scopes in found.items()
    )
    return Chart("scopes", "Energy by scope; scopes contain each other", words, figure)


@styled
def power_over_time(record: Record, traces: Sequence[Trace], title: str, name: str) -> Chart | None:
    """Power of the channels that count, summed over each node, with the measured windows shaded."""
    import numpy as np

    used = {(channel["hostname"], channel["name"]) for channel in value_at(record, "energy.channels") or []}
    figure, [axes] = new_figure()
    drawn = 0
    for trace in traces:
        windows = [window for window in record["windows"] if window["boot_id"] == trace.meta.get("boot_id")]
        hosts = {window["hostname"] for window in windows}
        mine = [series for series in trace.series() if any((host, series.info.name) in used for host in hosts)]
        mine = [series for series in mine if series.samples]
        if not windows or not mine:
            continue
        start_s = min(window["start_s"] for window in windows)
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
            axes.axvspan(window["start_s"] - start_s, window["end_s"] - start_s, color=COLOURS[2], alpha=0.15, lw=0)
        drawn += 1
    if not drawn:
        return None
    axes.set_xlabel("time from the start of the measured window [s]")
    axes.set_ylabel("power of the node's channels [W]")
    axes.set_ylim(bottom=0)
    if drawn > 1:
        axes.legend()
    average_w = value_at(record, "energy.avg_power_w")
    words = f"The shaded part is the measured window, of {rounded(average_w)} W on average over all nodes."
    return Chart(name, f"Power over time: {title}", words, figure)
