"""Charts that compare systems, as bars and as dots."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from record.values import EFFECTIVE, PER_DEVICE, THROUGHPUT, devices_text, grouped, rounded
from results.points.estimate import exactly
from results.points.repeats import PointResults, Summary
from results.show.plots.style import (
    FULL,
    INK,
    OF_SYSTEM,
    PALE,
    SIZE_IN,
    Axis,
    Chart,
    Styles,
    error_bars,
    legend_below,
    new_figure,
    styled,
    unit_of,
)
from results.verdicts.quality import energy_kind
from results.verdicts.ranking import best_of_systems

if TYPE_CHECKING:
    pass

MOST_DOTS = 10
LONGEST_NAME = 30  # characters on a line next to a dot
ROW_IN = 0.24


@styled
def ratios(results: Sequence[PointResults], path: str, title: str, name: str, styles: Styles) -> Chart | None:
    """Draw each system's best point relative to the last system, with 95 % intervals; None without two systems."""
    best = best_of_systems(results, path)
    estimates = [estimate for one in best if (estimate := one.estimate(path))]
    if len(estimates) < max(2, len(best)):
        return None
    base = best[-1]
    found = [*(one / estimates[-1] for one in estimates[:-1]), exactly(1.0)]
    errors = list(zip(*(error_bars(Summary(ratio.value, ratio.interval)) for ratio in found), strict=True))
    figure, [axes] = new_figure((SIZE_IN[0], 0.9 + 0.38 * len(best)))
    names, values = [one.system for one in best], [ratio.value for ratio in found]
    bars = axes.barh(
        names, values, 0.6, xerr=errors, capsize=3, color=[styles[name]["color"] for name in names], ecolor=INK
    )
    axes.bar_label(bars, [f"{ratio.value:.2f}" for ratio in found], padding=6, color=INK)
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.set_xlabel(f"times {base.system}")
    axes.grid(axis="y", visible=False)
    words = "; ".join(f"{one.system} {ratio.text}" for one, ratio in zip(best, found, strict=True))
    return Chart(name, f"{title}, each system at its best point", words, figure)


@styled
def dots(results: Sequence[PointResults], quantity: Axis, styles: Styles) -> Chart | None:
    """Draw each system's best point as a dot with its 95 % intervals; for a single system, its best points.

    Each precision and kind of energy has its own row. The thick interval is that of the repeats, the thin one
    includes the sensor's accuracy. A single run is hollow.
    """
    found = _best_points(results, quantity.path)
    if not found:
        return None
    from matplotlib.ticker import MaxNLocator

    names = _names(found, quantity.path != PER_DEVICE)
    row_in = ROW_IN * (1.5 if any("\n" in name for name in names) else 1)
    figure, [axes] = new_figure((SIZE_IN[0], 0.65 + row_in * max(2, len(found))))
    values = []
    for row, one in enumerate(found):
        colour = styles[one.system]["color"]
        repeats, whole = (one.estimate(quantity.path, with_accuracy) for with_accuracy in (False, True))
        value = one.value(quantity.path) or 0.0
        for estimate, width in ((whole, 1.2), (repeats, 3.0)):
            if estimate and estimate.interval:
                axes.plot(estimate.interval, [row, row], color=colour, lw=width, gid=f"{OF_SYSTEM}{one.system}")
        face = colour if len(one.good) > 1 else "none"
        axes.plot([value], [row], "o", ms=7, mec=colour, mfc=face, mew=1.6, gid=f"{OF_SYSTEM}{one.system}")
        axes.text(1.02, row, rounded(value), transform=axes.get_yaxis_transform(), va="center")
        values.append(f"{names[row]}: {rounded(value)}")
    axes.set_yticks(range(len(found)), names)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if abs(value) >= 100 else f"{value:g}")
    axes.set_xlabel(quantity.label.format(unit=unit_of(results)))
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    legend_below(figure, [axes])
    return Chart(f"dots_{quantity.name}", quantity.title, "; ".join(values), figure)


def _best_points(results: Sequence[PointResults], path: str) -> list[PointResults]:
    """Return the points to draw, the best of each precision and kind of energy first."""
    of_energy = path != PER_DEVICE
    kinds = grouped(
        (one for one in results if one.good and one.value(path) is not None),
        lambda one: (one.precision, energy_kind(one.any) if of_energy else ""),
    )
    systems = {one.system for one in results}
    found = []
    for mine in kinds.values():
        best = best_of_systems(mine, path)
        if len(systems) == 1:
            best = sorted(mine, key=lambda one: one.value(path) or 0.0, reverse=True)
        found += best
    return found[:MOST_DOTS] if len(systems) == 1 else found


def _names(found: Sequence[PointResults], of_energy: bool) -> list[str]:
    """Return the names of points: the facts in which they differ, on at most two lines."""
    several = len({one.system for one in found}) > 1
    kinds = [[one.precision, *((energy_kind(one.any) or "").split(", ") if of_energy else [])] for one in found]
    facts = [
        [*([one.system] if several else [devices_text(one.point.devices), one.point.batch]), *kind]
        + ([] if several else list(one.variant))
        for one, kind in zip(found, kinds, strict=True)
    ]
    shared = set.intersection(*map(set, facts)) if len(found) > 1 else set(kinds[0]) | set(found[0].variant)
    names = [", ".join(dict.fromkeys(fact for fact in one if fact not in shared)) for one in facts]
    names = [name or one.point.place for name, one in zip(names, found, strict=True)]
    return [textwrap.fill(name, LONGEST_NAME, max_lines=2, placeholder="…") for name in names]


@styled
def compute_and_effective(
    results: Sequence[PointResults],
    styles: Styles,
) -> Chart | None:
    """Draw throughput with data on the device, and through the input path; None if no run measured the latter."""
    found = [one for one in results if one.value(EFFECTIVE) and one.value(THROUGHPUT)]
    if not found:
        return None
    figure, [axes] = new_figure((SIZE_IN[0], 1.2 + 0.5 * len(found)))
    colours = [styles[one.system]["color"] for one in found]
    for path, title, shift, share in (
        (THROUGHPUT, "compute: data is on the device", -0.2, FULL),
        (EFFECTIVE, "effective: through the input path", 0.2, PALE),
    ):
        summaries = [summary for one in found if (summary := one.summary(path))]
        errors = list(zip(*(error_bars(summary) for summary in summaries), strict=True))
        axes.barh(
            [index + shift for index in range(len(found))],
            [summary.median for summary in summaries],
            0.36,
            xerr=errors,
            capsize=3,
            color=colours,
            alpha=share,
            ecolor=INK,
        )
        axes.barh([0], [0], color=INK, alpha=share, label=title)
    names = [f"{one.system}, {one.point.place}" for one in found]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(f"{unit_of(results)}/s")
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper right", ncols=2)
    words = "; ".join(
        f"{name}: {rounded(one.value(EFFECTIVE))} of {rounded(one.value(THROUGHPUT))}"
        for name, one in zip(names, found, strict=True)
    )
    return Chart("effective", "Throughput with and without the input path", words, figure)
