"""Servers under load, drawn: speed of one user against that of all, energy against speed, and the limit of load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from results.points.repeats import PointResults
from results.record.values import PER_DEVICE, grouped, rounded, value_at
from results.show.plots.style import INK, OF_SYSTEM, Chart, Styles, legend_below, new_figure, styled
from results.show.plots.sweep import doublings_axis
from results.verdicts.quality import energy_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PER_USER, TPOT, TTFT = "metrics.tokens_per_s_per_user", "metrics.tpot_p50_s", "metrics.ttft_p99_s"
PER_TOKEN = "energy.j_per_output_token"
Place = tuple[float, float]


def serving_charts(results: Sequence[PointResults], styles: Styles) -> list[Chart]:
    """Return the charts of servers under load, none for other workloads."""
    served = [one for one in results if one.good and one.any.get("serving")]
    if not served:
        return []
    found = [_pareto(served, styles), _energy(served, styles), _limit(served, styles)]
    return [chart for chart in found if chart]


def frontier(places: Sequence[Place]) -> list[Place]:
    """Return the places that no other one exceeds in both numbers, by the first, the largest last."""
    kept: list[Place] = []
    for place in sorted(places, reverse=True):
        if not kept or place[1] > kept[-1][1]:
            kept.append(place)
    return kept[::-1]


def _places(results: Sequence[PointResults], across: str, upwards: str) -> dict[str, list[Place]]:
    """Return, for each system, its places by two values of its points."""
    of_systems = grouped(results, lambda one: one.system)
    found = {
        system: [
            (x, y) for one in mine if (x := one.value(across)) is not None and (y := one.value(upwards)) is not None
        ]
        for system, mine in of_systems.items()
    }
    return {system: places for system, places in found.items() if places}


def _words(of_systems: dict[str, list[Place]]) -> str:
    return "; ".join(
        f"{system}: " + ", ".join(f"{rounded(y)} at {rounded(x)}" for x, y in places)
        for system, places in of_systems.items()
    )


def _mark(axes: Axes, system: str, places: Sequence[Place], styles: Styles) -> None:
    axes.plot(
        *zip(*places, strict=True), label=system, gid=f"{OF_SYSTEM}{system}", **{**styles[system], "linestyle": ""}
    )


@styled
def _pareto(results: Sequence[PointResults], styles: Styles) -> Chart | None:
    """Tokens/s of a device against those of a user; between two points the lower ones count, as nothing is between."""
    of_systems = _places(results, PER_USER, PER_DEVICE)
    if not of_systems:
        return None
    figure, [axes] = new_figure()
    for system, places in of_systems.items():
        _mark(axes, system, places, styles)
        best = frontier(places)
        colour = styles[system]["color"]
        axes.step(*zip(*best, strict=True), where="pre", color=colour, linewidth=1, gid=f"{OF_SYSTEM}{system}")
    axes.set_xlabel("tokens/s of a user (1 / median TPOT)")
    axes.set_ylabel("output tokens/s per device")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    legend_below(figure, [axes])
    return Chart("serving_pareto", "Throughput against the speed of a user", _words(of_systems), figure)


@styled
def _energy(results: Sequence[PointResults], styles: Styles) -> Chart | None:
    """Joules per output token against TPOT, of the kind of energy that most points have."""
    kinds = grouped(results, lambda one: energy_kind(one.any))
    if not kinds:
        return None
    kind = max(kinds, key=lambda one: len(kinds[one]))
    of_systems = _places(kinds[kind], TPOT, PER_TOKEN)
    if not of_systems:
        return None
    figure, [axes] = new_figure()
    for system, places in of_systems.items():
        _mark(axes, system, places, styles)
    axes.set_xlabel("TPOT, median [s]")
    axes.set_ylabel(f"J per output token ({kind})")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    legend_below(figure, [axes])
    return Chart("serving_energy", "Energy of a token against its time", _words(of_systems), figure)


@styled
def _limit(results: Sequence[PointResults], styles: Styles) -> Chart | None:
    """TTFT's 99th percentile over requests in flight, with its limit."""
    of_systems = {
        system: sorted((one.point.global_batch, value) for one in mine if (value := one.value(TTFT)) is not None)
        for system, mine in grouped(results, lambda one: one.system).items()
    }
    of_systems = {system: places for system, places in of_systems.items() if places}
    if not of_systems:
        return None
    figure, [axes] = new_figure()
    for system, places in of_systems.items():
        axes.plot(*zip(*places, strict=True), label=system, gid=f"{OF_SYSTEM}{system}", **styles[system])
    limits = {(value_at(one.any, "serving.slo"), value_at(one.any, "metrics.slo_ttft_s")) for one in results}
    for slo, limit_s in sorted(limit for limit in limits if None not in limit):
        axes.axhline(limit_s, color=INK, linewidth=0.8, linestyle=":", label=f"limit of {slo}")
    doublings_axis(axes, {batch for places in of_systems.values() for batch, _ in places}, "requests in flight")
    axes.set_ylabel("TTFT, 99th percentile [s]")
    axes.set_yscale("log")
    legend_below(figure, [axes])
    words = "; ".join(
        f"{system}: " + ", ".join(f"{rounded(value)} s at {batch}" for batch, value in places)
        for system, places in of_systems.items()
    )
    return Chart("serving_limit", "Time to the first token under load", words, figure)
