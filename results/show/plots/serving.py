"""Charts of servers under load: throughput and energy against the speed of one user, and TTFT against its limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from results.points.repeats import PointResults
from results.record.quantities import quantities
from results.record.values import PER_DEVICE, grouped, rounded, value_at
from results.show.plots.style import INK, OF_SYSTEM, Chart, Styles, legend_below, new_figure, styled
from results.show.plots.sweep import doublings_axis
from results.verdicts.quality import energy_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PER_USER, TPOT, TTFT, CONCURRENCY, PER_TOKEN = (
    one.path for one in quantities("per_user", "tpot_p50", "ttft_p99", "concurrency", "j_per_output_token")
)


class Curve(NamedTuple):
    """Points of one setup of a system, by requests in flight."""

    system: str
    x: list[float]
    y: list[float]
    streams: list[int]


@styled
def serving_charts(results: Sequence[PointResults], styles: Styles) -> list[Chart]:
    """Return the charts of servers under load, none for other workloads."""
    served = sorted((one for one in results if one.good and one.any.serving), key=lambda one: one.point.global_batch)
    return [*_pareto(served, styles), *_energy(served, styles), *_limit(served, styles)]


def frontier(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto front: the places that no other place exceeds in both numbers, in ascending order."""
    kept: list[tuple[float, float]] = []
    for place in sorted(places, reverse=True):
        if not kept or place[1] > kept[-1][1]:
            kept.append(place)
    return kept[::-1]


def _curves(results: Sequence[PointResults], across: str, upwards: str) -> list[Curve]:
    found = []
    for (system, *_), mine in grouped(results, lambda one: (one.system, one.point.devices, one.variant)).items():
        both = [(one.value(across), one.value(upwards), one.point.global_batch) for one in mine]
        known = [(x, y, streams) for x, y, streams in both if x is not None and y is not None]
        if known:
            found.append(Curve(system, *map(list, zip(*known, strict=True))))
    return found


def _draw(curves: Sequence[Curve], styles: Styles, line: str | None, labels: tuple[str, str]) -> tuple[Figure, Axes]:
    """Draw curves. With `line` as their line style, each point is labelled with its requests in flight."""
    figure, [axes] = new_figure()
    for curve in curves:
        gid, own = f"{OF_SYSTEM}{curve.system}", {} if line is None else {"linestyle": line}
        axes.plot(curve.x, curve.y, label=curve.system, gid=gid, **{**styles[curve.system], **own})
        for x, y, streams in zip(curve.x, curve.y, curve.streams, strict=True) if own else ():
            axes.annotate(str(streams), (x, y), (4, 4), textcoords="offset points", fontsize=7, gid=gid)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    return figure, axes


def _logarithmic(axes: Axes, values: Sequence[float]) -> None:
    """Scale upwards by factors, with ticks at 1, 2 and 5."""
    from matplotlib.ticker import NullFormatter

    low, high = min(values) / 1.3, max(values) * 1.3
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    ticks = [tick for decade in decades for tick in (10.0**decade, 2 * 10.0**decade, 5 * 10.0**decade)]
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_yticks([tick for tick in ticks if low <= tick <= high])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _words(curves: Sequence[Curve]) -> str:
    return "Numbers are requests in flight. " + "; ".join(
        f"{system}: "
        + ", ".join(f"{rounded(y)} at {rounded(x)}" for one in mine for x, y in zip(one.x, one.y, strict=True))
        for system, mine in grouped(curves, lambda one: one.system).items()
    )


def _pareto(results: Sequence[PointResults], styles: Styles) -> Iterator[Chart]:
    """Draw tokens/s of a device over those of a user. Between two points, the front has the lower value."""
    curves = _curves(results, PER_USER, PER_DEVICE)
    if not curves:
        return
    labels = "tokens/s per user (1 / median TPOT)", "output tokens/s per device"
    figure, axes = _draw(curves, styles, "", labels)
    for system, mine in grouped(curves, lambda one: one.system).items():
        best = frontier([place for one in mine for place in zip(one.x, one.y, strict=True)])
        colour = styles[system]["color"]
        axes.step(*zip(*best, strict=True), where="pre", color=colour, linewidth=1, gid=f"{OF_SYSTEM}{system}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    legend_below(figure, [axes])
    yield Chart("serving_pareto", "Throughput against speed per user", _words(curves), figure)


def _energy(results: Sequence[PointResults], styles: Styles) -> Iterator[Chart]:
    """Draw joules per output token over TPOT, for the kind of energy that most points have."""
    kinds = grouped(results, lambda one: energy_kind(one.any))
    kind = max(kinds, key=lambda one: len(kinds[one]), default="")
    curves = _curves(kinds.get(kind, []), TPOT, PER_TOKEN)
    if not curves:
        return
    figure, axes = _draw(curves, styles, ":", ("TPOT, median [s]", f"J per output token ({kind})"))
    axes.set_xlim(left=0)
    _logarithmic(axes, [y for one in curves for y in one.y])
    legend_below(figure, [axes])
    yield Chart("serving_energy", "Energy per token against TPOT", _words(curves), figure)


def _limit(results: Sequence[PointResults], styles: Styles) -> Iterator[Chart]:
    """Draw the 99th percentile of TTFT over requests in flight, with its limit."""
    curves = _curves(results, CONCURRENCY, TTFT)
    if not curves:
        return
    figure, axes = _draw(curves, styles, None, ("requests in flight", "TTFT, 99th percentile [s]"))
    limits = {(value_at(one.any, "serving.slo"), value_at(one.any, "metrics.slo_ttft_s")) for one in results}
    limits = {limit for limit in limits if None not in limit}
    for slo, limit_s in sorted(limits):
        axes.axhline(limit_s, color=INK, linewidth=0.8, linestyle=":", label=f"limit of {slo}")
    doublings_axis(axes, {int(x) for one in curves for x in one.x}, "requests in flight")
    _logarithmic(axes, [*(y for one in curves for y in one.y), *(limit_s for _, limit_s in limits)])
    legend_below(figure, [axes])
    words = "; ".join(
        f"{one.system}: " + ", ".join(f"{rounded(y)} s at {x:g}" for x, y in zip(one.x, one.y, strict=True))
        for one in curves
    )
    yield Chart("serving_limit", "Time to the first token under load", words, figure)
