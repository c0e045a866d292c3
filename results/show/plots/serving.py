"""Charts of servers under load: throughput and energy against the speed of one user, and TTFT against its limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from record.values import PER_DEVICE, grouped, rounded, value_at
from results.files.quantities import quantities
from results.points.repeats import PointResults
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
    points: list[PointResults]

    @property
    def streams(self) -> list[int]:
        """Requests in flight at each point."""
        return [one.point.global_batch for one in self.points]


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
        both = [(one.value(across), one.value(upwards), one) for one in mine]
        known = [(x, y, one) for x, y, one in both if x is not None and y is not None]
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
    kind = _usual_energy(results)
    figure, [axes] = new_figure()
    for system, mine in grouped(curves, lambda one: one.system).items():
        best = frontier([place for one in mine for place in zip(one.x, one.y, strict=True)])
        line = {"color": styles[system]["color"], "linewidth": 1}
        axes.step(*zip(*best, strict=True), where="pre", gid=f"{OF_SYSTEM}{system}", **line)
        for one in mine:
            _draw_with_intervals(axes, one, styles[system], kind)
    if any(point.keeps_limits is False for one in curves for point in one.points):
        axes.plot([], [], "o", fillstyle="none", color=INK, label="beyond its limits of TTFT and TPOT")
    axes.set_xlabel("tokens/s per user (1 / median TPOT)")
    axes.set_ylabel("output tokens/s per device")
    axes.margins(0.15, 0.08)  # for labels to the right of points
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    legend_below(figure, [axes])
    title = "Throughput against speed per user; labels: requests in flight"
    yield Chart("serving_pareto", title + (f", J per output token ({kind})" if kind else ""), _words(curves), figure)


def _draw_with_intervals(axes: Axes, curve: Curve, style: Mapping[str, Any], kind: str) -> None:
    """Draw the points of a curve with intervals, and the joules of a token where they are of this kind of energy."""
    gid = f"{OF_SYSTEM}{curve.system}"
    _, labelled = axes.get_legend_handles_labels()
    for number, (x, y, point) in enumerate(zip(curve.x, curve.y, curve.points, strict=True)):
        own = {**style, "linestyle": "", "fillstyle": "none" if point.keeps_limits is False else "full", "gid": gid}
        axes.plot(x, y, label="" if number or curve.system in labelled else curve.system, **own)
        (left, right), (low, high) = _interval(point, PER_USER) or (x, x), _interval(point, PER_DEVICE) or (y, y)
        axes.plot([left, x, right], [y, y, y], linewidth=0.7, color=style["color"], gid=gid)
        axes.plot([x, x, x], [low, y, high], linewidth=0.7, color=style["color"], gid=gid)
        joules = point.value(PER_TOKEN) if energy_kind(point.any) == kind else None
        words = f"{point.point.global_batch}" + (f", {joules:.2g} J" if joules else "")
        axes.annotate(words, (x, y), (5, 4), textcoords="offset points", fontsize=7, gid=gid)


def _usual_energy(results: Sequence[PointResults]) -> str:
    """Return the kind of energy that most points have; empty without any."""
    kinds = grouped(results, lambda one: energy_kind(one.any))
    return max(kinds, key=lambda one: len(kinds[one]), default="")


def _interval(point: PointResults, path: str) -> Sequence[float]:
    """Return the ends of a value's interval: of the mean of the runs, or a single run's own; empty without one."""
    estimate, metrics = point.estimate(path), point.any.metrics
    if estimate and estimate.interval:
        return estimate.interval
    names = ("tpot_p50_high_s", "tpot_p50_low_s") if path == PER_USER else ("tokens_per_s_low", "tokens_per_s_high")
    ends = [one for one in map(metrics.number, names) if one]
    if len(ends) < len(names):
        return ()
    return [1 / one if path == PER_USER else one / point.point.devices for one in ends]


def _energy(results: Sequence[PointResults], styles: Styles) -> Iterator[Chart]:
    """Draw joules per output token over TPOT, for the kind of energy that most points have."""
    kind = _usual_energy(results)
    curves = _curves([one for one in results if energy_kind(one.any) == kind], TPOT, PER_TOKEN)
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
