"""Chart of the step time by region: a bar for each point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from record.values import rounded
from results.points.regions import ORDER, OTHER, TIMED_BY, WINDOWS, StepRegions, regions_of
from results.points.repeats import PointResults
from results.show.plots.style import COLOURS, INK, Chart, new_figure, styled

REGION_COLOURS = dict(zip(ORDER, (COLOURS[4], COLOURS[5], COLOURS[0], COLOURS[0], COLOURS[1], COLOURS[2]), strict=True))
OWN_COLOUR, OTHER_COLOUR = COLOURS[3], "#999999"
DARK = COLOURS[:3]  # on which a number is white
SPLIT_HATCH = "////"
LEAST_LABELLED = 7.0  # percent of a step, in which a number fits
MOST_BARS = 40


@styled
def steps_by_region(results: Sequence[PointResults]) -> Chart | None:
    """Draw a stacked bar for each point and kind of window; None if no run recorded regions."""
    every = [(one, steps) for one in results for steps in regions_of(one.good)]
    if not every:
        return None
    bars = every[:MOST_BARS]
    names = _names(bars)
    figure, [axes] = new_figure((5.6, 1.1 + 0.27 * len(bars)))
    labels: set[str] = set()
    for row, (_, steps) in enumerate(bars):
        left = 0.0
        for region in steps.regions:
            colour = OTHER_COLOUR if region.name == OTHER else REGION_COLOURS.get(region.name, OWN_COLOUR)
            label = None if region.name in labels else region.name
            labels.add(region.name)
            hatch = SPLIT_HATCH if region.timed_by == TIMED_BY["in parts"] else None
            share = region.share_percent
            axes.barh(row, share, 0.75, left, color=colour, label=label, hatch=hatch, edgecolor="white", linewidth=0.4)
            if share >= LEAST_LABELLED:
                ink = "white" if colour in DARK else "black"
                box = {"fc": colour, "ec": "none", "pad": 0.6} if hatch else None
                number = axes.text(left + share / 2, row, f"{share:.0f}", ha="center", va="center", fontsize=7)
                number.set(color=ink, bbox=box)
            left += share
        axes.text(101, row, _time(steps.step_s), va="center", fontsize=7, color=INK)
    axes.set_yticks(range(len(bars)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the step time [%]; right: step time")
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper center", ncols=min(4, len(labels)))
    words = "; ".join(f"{name}: {_in_words(steps)}" for name, (_, steps) in zip(names, bars, strict=True))
    split = " Hatched: measured in split steps." if any(steps.longer_percent is not None for _, steps in bars) else ""
    left_out = f" These are the first {MOST_BARS} of {len(every)} bars." if len(every) > MOST_BARS else ""
    return Chart("regions", "Step time by region", f"{words}.{split}{left_out}", figure)


def _names(bars: Sequence[tuple[PointResults, StepRegions]]) -> list[str]:
    """Return the shortest names that distinguish the bars."""
    many_systems = len({one.system for one, _ in bars}) > 1
    places = [
        ", ".join(
            [
                *([one.system] if many_systems else []),
                one.point.place,
                *(["through the input path"] if steps.window != WINDOWS[0] else []),
            ]
        )
        for one, steps in bars
    ]
    counts = Counter(places)
    return [
        place if counts[place] == 1 else f"{place}, {', '.join(one.variant)}"
        for place, (one, _) in zip(places, bars, strict=True)
    ]


def _in_words(steps: StepRegions) -> str:
    return ", ".join(f"{region.name} {region.share_percent:.0f} %" for region in steps.regions)


def _time(seconds: float) -> str:
    return f"{rounded(1e3 * seconds)} ms" if seconds < 1 else f"{rounded(seconds)} s"
