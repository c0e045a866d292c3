"""Charts: their style; lines or dots, bars, and heat maps, each drawn from a frame of pandas by its columns."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from record.values import rounded
from results.points.repeats import PointResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Okabe and Ito's colours, which people with any kind of colour vision can distinguish, and six more. Each of these has
# the largest CIELAB distance to those before it, for full, red-blind and green-blind vision (Machado et al. 2009,
# doi:10.1109/TVCG.2009.113), and a contrast of 2.6 with a white and with a dark page.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#6611FF", "#BB0033", "#88AA55", "#6677FF", "#AA1177", "#9911CC"),
)
MARKERS = "osD^vP*X"
LINES = ("-", "--", "-.")
# Placeholder for the colour of text in an SVG: the page replaces it by its own, dark or light.
INK = "#010203"
GREY = "#8c8c8c"
SIZE_IN = (5.6, 3.6)
PIXELS_PER_PT = 1.25  # in a page
PANEL_IN = 1.75  # height of a panel
ROW_IN = 0.3  # height of a bar
CELL_IN = (0.62, 0.42)  # of a heat map
MOST_TICKS = 6  # of batch sizes or numbers of devices in a panel
LEAST_LABELLED = 7.0  # percent of a stacked bar, in which a number fits
LONGEST_NAME = 30  # characters on a line next to a bar
MOST_BARS = 40  # in a chart; more are left out with a word
DOTS = {"linestyle": "none"}
LEGEND_ROW_IN = 0.17
SHORT_LABEL = 24
LONG_LABEL = 44  # characters: two of these do not fit next to each other
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
}
OF_SYSTEM = "of:"  # prefix of the gid of an element of one system
Styles = Mapping[str, Mapping[str, Any]]  # of systems


class Chart(NamedTuple):
    """A figure with its name, its title, and a description for readers who cannot see it."""

    name: str
    title: str
    words: str
    figure: Figure

    def svg(self) -> str:
        """Return the chart as SVG for the inside of a page: in the page's colour and font, with its description."""
        file = io.StringIO()
        self._save(file, format="svg", metadata={"Date": None, "Creator": None})
        text = file.getvalue()
        text = text[text.index("<svg") :].replace(INK, "currentColor")
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        # Ids must be unique in a page.
        text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{self.name}-", text)
        width = f'width="{72 * PIXELS_PER_PT * self.figure.get_size_inches()[0]:.0f}"'
        text = re.sub(r'width="[\d.]+pt" height="[^"]*"', width, text, count=1)
        text = re.sub(rf'<g id="{self.name}-{OF_SYSTEM}([^"]*)">', r'<g data-system="\1">', text)
        label = f' role="img" aria-label="{escape(f"{self.title}. {self.words}", quote=True)}"'
        return text.replace("<svg", f"<svg{label}", 1)

    def png(self) -> bytes:
        """Return the chart as PNG on white, for a document."""
        file = io.BytesIO()
        self._save(file, format="png", dpi=150, facecolor="white", transparent=False)
        return file.getvalue()

    def _save(self, file: IO[Any], **options: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about characters without a font here: the reader's machine may have one
            self.figure.savefig(file, **options)
        self.figure.set_layout_engine("none")  # a second format reuses the layout


def new_figure(
    size_in: tuple[float, float] = SIZE_IN, rows: int = 1, columns: int = 1, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with its axes, in the style of all plots of this process; the size is in inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update(STYLE)
    figure = Figure(figsize=size_in, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share).flat)


def style_of(index: int) -> dict[str, Any]:
    """Return the colour, the marker and the line of a series by its number.

    24 series differ by marker and line alone, for readers who do not distinguish the colours.
    """
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": LINES[index // len(MARKERS) % len(LINES)],
        "markersize": 5,
    }


def styles_of_systems(results: Iterable[PointResults]) -> Styles:
    """Return a style for each system, the same in all plots of a report."""
    return {system: style_of(index) for index, system in enumerate(dict.fromkeys(one.system for one in results))}


def legend_below(figure: Figure, axes: Sequence[Axes]) -> None:
    """Draw one legend of all axes below the figure, which grows by its height; a repeated label appears once."""
    found = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    if not found:
        return
    columns = 1 if max(map(len, found)) > LONG_LABEL else 3 if max(map(len, found)) < SHORT_LABEL else 2
    width_in, height_in = figure.get_size_inches()
    figure.set_size_inches(width_in, height_in + LEGEND_ROW_IN * -(-len(found) // columns))
    figure.legend(found.values(), found, loc="outside lower center", ncols=columns)


class Axis(NamedTuple):
    """Column of a frame that is drawn along an axis, with its label."""

    column: str
    label: str
    scale: str = "zero"  # begins at zero; or doublings, factors, or free

    def ends(self, frame: DataFrame) -> list[list[float]] | None:
        """Return the lengths of error bars, down and up; 0 where an interval is not known, None if none is."""
        values = frame[self.column].astype(float)
        if f"{self.column}_low" not in frame or frame[f"{self.column}_low"].isna().all():
            return None
        low, high = (frame[f"{self.column}_{end}"].astype(float).fillna(values) for end in ("low", "high"))
        return [list((values - low).clip(lower=0)), list((high - values).clip(lower=0))]

    def set_on(self, axes: Axes, values: Sequence[float], axis: str) -> None:
        """Set label, scale and ticks of the x or y axis for some values."""
        from matplotlib.ticker import LogLocator, NullFormatter

        of_axis, end = getattr(axes, f"{axis}axis"), max(values)
        getattr(axes, f"set_{axis}label")(self.label)
        limits, scale = getattr(axes, f"set_{axis}lim"), getattr(axes, f"set_{axis}scale")
        if self.scale == "doublings":
            every = sorted({int(value) for value in values})
            scale("log", base=2)
            of_axis.set_ticks(every[:: -(-len(every) // MOST_TICKS)])
            of_axis.set_major_formatter("{x:.0f}")
        elif self.scale == "factors":
            scale("log")
            limits(min(values) / 1.3, end * 1.3)
            of_axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            of_axis.set_major_formatter(lambda value, _: short(value))
        elif self.scale == "zero":
            limits(0, 1.12 * end)
            of_axis.set_major_formatter(lambda value, _: short(value))
        of_axis.set_minor_formatter(NullFormatter())


def series(
    frame: DataFrame,
    x: Axis,
    y: Axis,
    chart: tuple[str, str],
    styles: Styles,
    by: str = "system",
    panels: Callable[[Any], str] | None = None,
    of_panels: str = "devices",
    look: Mapping[str, Any] | None = None,
    limits: Mapping[str, float] | None = None,
    spans: Iterable[tuple[float, float, str]] = (),
    labels: str = "",
    front: Sequence[tuple[float, float]] = (),
    words: str = "",
) -> Chart:
    """Draw a line for each value of `by`; with `panels`, which words its values, a panel for each of another column.

    chart: its name and title. look: of all lines, such as DOTS; markers of rows whose `hollow` is true are hollow.
    limits: horizontal lines by their labels. spans: shaded parts of the x axis, with a colour. labels: column with
    a text for each point. front: a dotted line.
    """
    parts = list(frame.groupby(of_panels, sort=True)) if panels else [("", frame)]
    columns = min(2, len(parts))
    rows = -(-len(parts) // columns)
    size_in = (SIZE_IN[0], SIZE_IN[1] if len(parts) == 1 else PANEL_IN * rows + 0.4)
    figure, every = new_figure(size_in, rows, columns, share=True)
    for axes, (part, group) in zip(every, parts, strict=False):
        for is_hollow, drawn in group.groupby("hollow") if "hollow" in group else [(False, group)]:
            _draw(axes, drawn, x, y, by, styles, {**(look or {}), **({"markerfacecolor": "none"} if is_hollow else {})})
        axes.set_title(panels(part) if panels and len(parts) > 1 else "")
        for label, value in (limits or {}).items():
            axes.axhline(value, color=INK, linewidth=0.8, linestyle=":", label=label or None)
        for begin, end, colour in spans:
            axes.axvspan(begin, end, color=colour, alpha=0.15, lw=0)
        for row in group.to_dict("records") if labels else ():
            place, gid = (float(row[x.column]), float(row[y.column])), f"{OF_SYSTEM}{row['system']}"
            axes.annotate(str(row[labels]), place, (5, 4), textcoords="offset points", fontsize=7, gid=gid)
    highest = frame[f"{y.column}_high"].fillna(frame[y.column]) if f"{y.column}_high" in frame else frame[y.column]
    heights = [*highest.astype(float), *(limits or {}).values()]
    for number, axes in enumerate(every):
        if number >= len(parts):
            axes.set_axis_off()
            continue
        x.set_on(axes, list(frame[x.column].astype(float)), "x")
        y.set_on(axes, heights, "y")
        axes.tick_params(labelbottom=True)
        if number % columns:
            axes.set_ylabel("")
        if labels:
            axes.margins(0.15, 0.12)
        if front:
            axes.plot(*zip(*front, strict=True), label="Pareto front", color=INK, linewidth=0.8, linestyle=":")
    legend_below(figure, every[: len(parts)])
    return Chart(*chart, words or _ranges(frame, y, by), figure)


def _draw(axes: Axes, frame: DataFrame, x: Axis, y: Axis, by: str, styles: Styles, look: Mapping[str, Any]) -> None:
    """Draw the rows of each value of a column as one series, with error bars."""
    for number, (name, group) in enumerate(frame.groupby(by, sort=False)):
        own = {**styles.get(group.system.iloc[0], style_of(number)), **look}
        line, caps, ends = axes.errorbar(
            list(group[x.column].astype(float)),
            list(group[y.column].astype(float)),
            xerr=x.ends(group),
            yerr=y.ends(group),
            capsize=2,
            elinewidth=0.8,
            label=str(name),
            **own,
        )
        for artist in (line, *caps, *ends):
            artist.set_gid(f"{OF_SYSTEM}{group.system.iloc[0]}")


def _ranges(frame: DataFrame, y: Axis, by: str) -> str:
    """Return the range of the values of each series, in words."""
    ranges = frame.groupby(by, sort=False)[y.column].agg(["min", "max"]).astype(float)
    return "; ".join(
        f"{name}: {' to '.join(dict.fromkeys(rounded(end) for end in ends))}"
        for name, ends in zip(ranges.index, ranges.itertuples(index=False), strict=True)
    )


def pareto(places: Iterable[tuple[float, float]], less_is_better: bool = False) -> list[tuple[float, float]]:
    """Return the Pareto front in ascending order: places that no other exceeds in both numbers; the first: more."""
    sign = -1 if less_is_better else 1
    front: list[tuple[float, float]] = []
    for x, y in sorted(places, key=lambda place: (-place[0], -sign * place[1])):
        if not front or sign * y > sign * front[-1][1]:
            front.append((x, y))
    return front[::-1]


def bars(frame: DataFrame, label: str, chart: tuple[str, str], colours: Mapping[str, str], words: str) -> Chart:
    """Draw a bar for each `name`, stacked of a `value` for each `part`; `colours` has the parts in their order."""
    names = list(dict.fromkeys(frame["name"]))[:MOST_BARS]
    shown = [textwrap.fill(name, LONGEST_NAME, max_lines=3, placeholder="…") for name in names]
    row_in = ROW_IN * max(1.0, 0.55 * max(name.count("\n") + 1 for name in shown))
    figure, [axes] = new_figure((SIZE_IN[0], 1.2 + row_in * len(names)))
    values = frame.pivot_table("value", "name", "part", "sum", fill_value=0.0).reindex(names)
    left = 0.0 * values.sum(axis=1)
    for part, colour in colours.items():
        lengths = values[part]
        drawn = axes.barh(range(len(names)), lengths, 0.7, left, color=colour, ec="white", lw=0.4, label=part)
        texts = [f"{length:.0f}" if length >= LEAST_LABELLED else "" for length in lengths]
        box = {"fc": "white", "ec": "none", "pad": 0.4, "alpha": 0.7}
        axes.bar_label(drawn, texts, label_type="center", fontsize=7, color="black", bbox=box)
        left += lengths
    axes.set_yticks(range(len(names)), shown, fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel(label)
    axes.grid(axis="y", visible=False)
    legend_below(figure, [axes])
    more = len(set(frame["name"])) - len(names)
    return Chart(*chart, words + (f" {more} more are left out." if more else ""), figure)


def heat_map(frame: DataFrame, x: Axis, y: Axis, value: Axis, chart: tuple[str, str]) -> Chart:
    """Draw a value for each pair of two columns; a row without one has its text in the column `failed`."""
    import pandas

    values = frame.pivot_table(value.column, y.column, x.column, dropna=False, observed=True)
    upwards, across = list(values.index), list(values.columns)
    figure, [axes] = new_figure((max(SIZE_IN[0], 1.2 + CELL_IN[0] * len(across)), 1.2 + CELL_IN[1] * len(upwards)))
    axes.pcolormesh(values.to_numpy(dtype=float, na_value=float("nan")), cmap="cividis")
    texts, middle = [], (float(frame[value.column].min()) + float(frame[value.column].max())) / 2
    for row in frame.to_dict("records"):
        number, text, ink = row[value.column], row["failed"], INK
        if not pandas.isna(number):
            ink, text = ("white" if float(number) < middle else "black"), short(float(number))
        place = across.index(row[x.column]) + 0.5, upwards.index(row[y.column]) + 0.5
        axes.text(*place, text, ha="center", va="center", fontsize=7, color=ink)
        texts.append(f"{row[y.column]} {y.label} at {x.label} {row[x.column]}: {text}")
    for axis, of_axis, names in ((x, axes.xaxis, across), (y, axes.yaxis, upwards)):
        of_axis.set_ticks([at + 0.5 for at in range(len(names))], list(map(str, names)))
        of_axis.set_label_text(axis.label)
    axes.set_title(value.label)
    axes.grid(False)
    return Chart(*chart, "; ".join(texts), figure)


def short(value: float) -> str:
    """Return a number with three digits and its SI prefix, such as 947, 1.49k or 85k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
