"""The four kinds of charts: lines, dots, bars and heat maps, each drawn from a frame of pandas by its columns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from record.values import rounded
from results.show.plots.style import (
    INK,
    OF_SYSTEM,
    SIZE_IN,
    Chart,
    Styles,
    legend_below,
    new_figure,
    style_of,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

PANEL_IN = 1.75  # height of a panel
ROW_IN = 0.3  # height of a bar
TITLE_IN = 0.085  # width of a letter
MOST_TICKS = 6  # of batch sizes or numbers of devices in a panel
LEAST_LABELLED = 7.0  # percent of a stacked bar, in which a number fits
LONGEST_NAME = 30  # characters on a line next to a bar
MOST_BARS = 40  # in a chart; more are left out with a word
FAILED_COLOUR = "#D55E00"


class Axis(NamedTuple):
    """Column of a frame that is drawn along an axis, with its label."""

    column: str
    label: str
    scale: str = "zero"  # begins at zero; or doublings, factors, or free

    def ends(self, frame: DataFrame) -> tuple[list[float], list[float]]:
        """Return the lengths of error bars, down and up; 0 where an interval is not known."""
        values = frame[self.column].astype(float)
        if f"{self.column}_low" not in frame:
            return [0.0] * len(frame), [0.0] * len(frame)
        low, high = (frame[f"{self.column}_{end}"].astype(float).fillna(values) for end in ("low", "high"))
        return list((values - low).clip(lower=0)), list((high - values).clip(lower=0))

    def set_on(self, axes: Axes, values: Sequence[float], axis: str) -> None:
        """Set label, scale and ticks of the x or y axis for some values."""
        from matplotlib.ticker import NullFormatter

        of_axis, end = getattr(axes, f"{axis}axis"), max(values)
        getattr(axes, f"set_{axis}label")(self.label)
        limits, scale = getattr(axes, f"set_{axis}lim"), getattr(axes, f"set_{axis}scale")
        if self.scale == "doublings":
            every = sorted({int(value) for value in values})
            scale("log", base=2)
            of_axis.set_ticks(every[:: -(-len(every) // MOST_TICKS)])
            of_axis.set_major_formatter("{x:.0f}")
            of_axis.set_minor_formatter(NullFormatter())
        elif self.scale == "factors":
            low, high = min(values) / 1.3, end * 1.3
            decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
            ticks = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
            scale("log")
            limits(low, high)
            of_axis.set_ticks([tick for tick in ticks if low <= tick <= high])
            of_axis.set_major_formatter(lambda value, _: short(value))
            of_axis.set_minor_formatter(NullFormatter())
        elif self.scale == "zero":
            limits(0, 1.12 * end)
            of_axis.set_major_formatter(lambda value, _: short(value))


def _series(axes: Axes, frame: DataFrame, x: Axis, y: Axis, by: str, styles: Styles, look: Mapping[str, Any]) -> None:
    """Draw the rows of each value of a column as one series, with error bars."""
    for number, (name, group) in enumerate(frame.groupby(by, sort=False)):
        own = {**styles.get(group.system.iloc[0], style_of(number)), **look}
        line, caps, ends = axes.errorbar(
            list(group[x.column].astype(float)),
            list(group[y.column].astype(float)),
            xerr=x.ends(group) if any(map(any, x.ends(group))) else None,
            yerr=y.ends(group) if any(map(any, y.ends(group))) else None,
            capsize=2,
            elinewidth=0.8,
            label=str(name),
            **own,
        )
        for artist in (line, *caps, *ends):
            artist.set_gid(f"{OF_SYSTEM}{group.system.iloc[0]}")


def _words(frame: DataFrame, y: Axis, by: str) -> str:
    """Return the range of the values of each series."""
    ranges = frame.groupby(by, sort=False)[y.column].agg(["min", "max"]).astype(float)
    return "; ".join(
        f"{name}: {' to '.join(dict.fromkeys(rounded(end) for end in ends))}"
        for name, ends in zip(ranges.index, ranges.itertuples(index=False), strict=True)
    )


@styled
def lines(
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
    words: str = "",
) -> Chart:
    """Draw a line for each value of `by`; with `panels`, which words its values, a panel for each of another column.

    chart: its name and title. limits: horizontal lines by their labels. spans: shaded parts of the x axis, with a
    colour.
    """
    parts = list(frame.groupby(of_panels, sort=True)) if panels else [("", frame)]
    columns = min(2, len(parts))
    rows = -(-len(parts) // columns)
    figure, every = new_figure(
        (SIZE_IN[0], SIZE_IN[1] if len(parts) == 1 else PANEL_IN * rows + 0.4), rows, columns, share=True
    )
    for axes, (part, group) in zip(every, parts, strict=False):
        _series(axes, group, x, y, by, styles, look or {})
        axes.set_title(panels(part) if panels and len(parts) > 1 else "")
        for label, value in (limits or {}).items():
            axes.axhline(value, color=INK, linewidth=0.8, linestyle=":", label=label or None)
        for begin, end, colour in spans:
            axes.axvspan(begin, end, color=colour, alpha=0.15, lw=0)
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
    legend_below(figure, every[: len(parts)])
    return Chart(*chart, words or _words(frame, y, by), figure)


@styled
def dots(
    frame: DataFrame,
    x: Axis,
    y: Axis,
    chart: tuple[str, str],
    styles: Styles,
    by: str = "system",
    labels: str = "",
    hollow: Sequence[bool] = (),
    front: Sequence[tuple[float, float]] = (),
    words: str = "",
) -> Chart:
    """Draw a dot for each row, with intervals and the texts of a column `labels`; `front` is a dotted line."""
    figure, [axes] = new_figure()
    is_hollow = list(hollow) or [False] * len(frame)
    for state in sorted(set(is_hollow)):
        group = frame[[one is state for one in is_hollow]]
        look = {"linestyle": "none", **({"markerfacecolor": "none"} if state else {})}
        _series(axes, group, x, y, by, styles, look)
    for row in frame.to_dict("records") if labels else ():
        place, gid = (float(row[x.column]), float(row[y.column])), f"{OF_SYSTEM}{row['system']}"
        axes.annotate(str(row[labels]), place, (5, 4), textcoords="offset points", fontsize=7, gid=gid)
    x.set_on(axes, list(frame[x.column].astype(float)), "x")
    y.set_on(axes, list(frame[y.column].astype(float)), "y")
    if labels:
        axes.margins(0.15, 0.12)
    if front:
        axes.plot(*zip(*front, strict=True), label="Pareto front", color=INK, linewidth=0.8, linestyle=":")
    legend_below(figure, [axes])
    places = (
        f"{row[by]}: {rounded(float(row[y.column]))} at {rounded(float(row[x.column]))}"
        for row in frame.to_dict("records")
    )
    return Chart(*chart, words or "; ".join(places), figure)


def pareto(places: Iterable[tuple[float, float]], less_is_better: bool = False) -> list[tuple[float, float]]:
    """Return the Pareto front in ascending order: places that no other exceeds in both numbers; the first: more."""
    sign = -1 if less_is_better else 1
    front: list[tuple[float, float]] = []
    for x, y in sorted(places, key=lambda place: (-place[0], -sign * place[1])):
        if not front or sign * y > sign * front[-1][1]:
            front.append((x, y))
    return front[::-1]


@styled
def bars(
    frame: DataFrame, label: str, chart: tuple[str, str], colours: Mapping[str, str], ends: Sequence[str], words: str
) -> Chart:
    """Draw a bar for each `name`, stacked of a `value` for each `part`; one whose `hatched` is true is hatched.

    colours: of the parts, in their order. ends: texts to the right of the bars.
    """
    names = list(dict.fromkeys(frame["name"]))[:MOST_BARS]
    shown = [textwrap.fill(name, LONGEST_NAME, max_lines=3, placeholder="…") for name in names]
    row_in = ROW_IN * max(1.0, 0.55 * max(name.count("\n") + 1 for name in shown))
    figure, [axes] = new_figure((SIZE_IN[0], 1.2 + row_in * len(names)))
    left = dict.fromkeys(names, 0.0)
    for part, colour in colours.items():
        for row in frame[(frame["part"] == part) & frame["name"].isin(names)].to_dict("records"):
            at, value, begin = names.index(row["name"]), float(row["value"]), left[row["name"]]
            hatch = "////" if row["hatched"] else None
            axes.barh(at, value, 0.7, begin, color=colour, hatch=hatch, edgecolor="white", lw=0.4)
            if value >= LEAST_LABELLED:
                text = axes.text(begin + value / 2, at, f"{value:.0f}", ha="center", va="center", fontsize=7)
                text.set(color="black", bbox={"fc": "white", "ec": "none", "pad": 0.4, "alpha": 0.7})
            left[row["name"]] += value
        axes.barh([0], [0], color=colour, label=part)
    for at, end in enumerate(ends[: len(names)]):
        axes.text(1.01, at, end, va="center", fontsize=7, transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(names)), shown, fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel(label)
    axes.grid(axis="y", visible=False)
    legend_below(figure, [axes])
    more = len(set(frame["name"])) - len(names)
    left_out = f" {more} more are left out." if more else ""
    return Chart(*chart, f"{words}{left_out}", figure)


@styled
def heat_map(frame: DataFrame, x: Axis, y: Axis, value: str, chart: tuple[str, str], unit: str) -> Chart:
    """Draw a value for each pair of two columns; a row without one has its text in the column `failed`."""
    across, upwards = (sorted({int(one) for one in frame[axis.column]}) for axis in (x, y))
    heading = f"{chart[1]} [{unit}]"
    width_in = max(3.2, 0.62 * len(across) + 1.2, TITLE_IN * len(heading) + 1.0)
    figure, [axes] = new_figure((width_in, max(1.5, 0.42 * len(upwards) + 1.1)))
    cells = frame.set_index([y.column, x.column])[value].astype(float).unstack()
    low, high = (float(end) for end in (frame[value].min(), frame[value].max()))
    axes.pcolormesh(cells.to_numpy(), cmap="cividis")
    texts = []
    for row in frame.to_dict("records"):
        place, number = (across.index(row[x.column]) + 0.5, upwards.index(row[y.column]) + 0.5), row[value]
        is_known = number == number and number is not None
        is_dark = is_known and float(number) <= low + 0.55 * (high - low)
        ink = "white" if is_dark else "black" if is_known else FAILED_COLOUR
        text = short(float(number)) if is_known else row["failed"]
        axes.text(*place, text, ha="center", va="center", fontsize=7, color=ink)
        shown = rounded(float(number)) if is_known else row["failed"]
        texts.append(f"{row[y.column]} {y.label} at {x.label} {row[x.column]}: {shown}")
    axes.set_xticks([at + 0.5 for at in range(len(across))], list(map(str, across)))
    axes.set_yticks([at + 0.5 for at in range(len(upwards))], list(map(str, upwards)))
    axes.set_xlabel(x.label)
    axes.set_ylabel(y.label)
    axes.set_title(heading)
    axes.grid(False)
    return Chart(chart[0], f"{chart[1]} over {y.label} and {x.label}", "; ".join(texts), figure)


def short(value: float) -> str:
    """Return a number with three digits and its SI prefix, such as 947, 1.49k or 85k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
