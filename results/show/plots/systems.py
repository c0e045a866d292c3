"""Charts that compare systems, as bars and as dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from record.values import EFFECTIVE, THROUGHPUT, rounded
from results.points.estimate import exactly
from results.points.repeats import PointResults
from results.show.plots.style import (
    FULL,
    INK,
    PALE,
    SIZE_IN,
    Chart,
    Styles,
    error_bars,
    new_figure,
    styled,
    unit_of,
)
from results.verdicts.ranking import best_of_systems

if TYPE_CHECKING:
    pass


@styled
def ratios(results: Sequence[PointResults], path: str, title: str, name: str, styles: Styles) -> Chart | None:
    """Draw each system's best point relative to the last system, with 95 % intervals; None without two systems."""
    best = best_of_systems(results, path)
    estimates = [estimate for one in best if (estimate := one.estimate(path))]
    if len(estimates) < max(2, len(best)):
        return None
    base = best[-1]
    found = [*(one / estimates[-1] for one in estimates[:-1]), exactly(1.0)]
    errors = list(zip(*(error_bars(ratio) for ratio in found), strict=True))
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
        estimates = [estimate for one in found if (estimate := one.estimate(path))]
        errors = list(zip(*(error_bars(estimate) for estimate in estimates), strict=True))
        axes.barh(
            [index + shift for index in range(len(found))],
            [estimate.value for estimate in estimates],
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
