"""Style of all plots: colours, markers, axes and legends. A Chart is a figure with its title and description."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from results.points.repeats import PointResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
