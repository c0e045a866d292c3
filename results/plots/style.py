"""The look of all plots: colours, marks, axes and legends. A Chart is a figure with its words."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from results.points.repeats import PointResults, Summary
from results.tables.published import PUBLISHED
from results.values import THROUGHPUT, WORK
from results.verdicts.quality import grade

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


SPEED = Quantity("throughput", "Throughput", "{unit}/s", THROUGHPUT)
EFFICIENCY = Quantity("efficiency", "Work per energy", "{unit}/Wh", WORK)


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


def say_empty(axes: Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes)
    axes.set_axis_off()


def style_of(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        # Shifted where the colours and marks would come together again.
        "marker": MARKERS[(index + index // math.lcm(len(COLOURS), len(MARKERS))) % len(MARKERS)],
        "linestyle": ("-", "--", "-.")[index // len(COLOURS) % 3],
        "markersize": 5,
    }


def styles_of_systems(results: Iterable[PointResults]) -> dict[str, dict[str, Any]]:
    """A style for each system, the same in all plots of a workload."""
    return {system: style_of(index) for index, system in enumerate(dict.fromkeys(one.system for one in results))}


def unit_of(results: Sequence[PointResults]) -> str:
    return str(results[0].any["work_unit"])


def is_estimate(results: PointResults) -> bool:
    return any(grade(record) == "Q0" for record in results.good)


def error_bars(summary: Summary) -> tuple[float, float]:
    """From the median down and up to the ends of the interval; nothing for a single run."""
    if summary.low is None or summary.high is None:
        return 0.0, 0.0
    return max(0.0, summary.median - summary.low), max(0.0, summary.high - summary.median)


def legend_below(figure: Figure, axes: Axes) -> None:
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
