"""Operating points as a table and in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from results.points.estimate import Estimate
from results.points.operating import SHARES, OperatingPoint, Sweep, sweeps_of, unsettled
from results.points.repeats import PointResults
from results.record.values import THROUGHPUT, WORK, Number, rounded, value_at
from results.show.tables.points import PLACE, place_of
from results.show.tables.table import without_empty_columns

HEADER = (
    *PLACE[:-1],
    "power limit [W]",
    "clock limit [MHz]",
    "runs",
    "{unit}/s",
    "± 95 %",
    "of full speed [%]",
    "± 95 %",
    "{unit}/Wh",
    "± 95 %",
    "of full work per energy [%]",
    "± 95 %",
    "energy-delay [%]",
    "limit bound [%]",
    "settled",
)


def operating_rows(results: Sequence[PointResults], number: Number = rounded) -> list[list[str]]:
    """Return a header and a row for each operating point of each sweep; empty without a sweep."""
    sweeps = sweeps_of(results)
    units = " or ".join(dict.fromkeys(str(sweep.full.results.any["work_unit"]) for sweep in sweeps))
    rows = [_row(one, number) for sweep in sweeps for one in sweep.points]
    return without_empty_columns([[title.format(unit=units) for title in HEADER], *rows]) if rows else []


def _row(one: OperatingPoint, number: Number) -> list[str]:
    results = one.results
    cells = place_of(results)[:-1]
    cells += [number(one.limits.power_w), number(one.limits.clock_mhz), str(len(results.good))]
    for path, ratio in ((THROUGHPUT, one.speed), (WORK, one.work)):
        half = results.half_width(path)
        cells += [number(results.value(path), half), number(half, half), *_percent(ratio, number)]
    cells += [_percent(one.energy_delay, number)[0], number(one.limited_percent)]
    return [*cells, unsettled(results) or "yes"]


def _percent(ratio: Estimate | None, number: Number) -> list[str]:
    if ratio is None:
        return ["", ""]
    half = 100 * ratio.interval.half if ratio.interval and ratio.parts else None
    return [number(100 * ratio.value, half), number(half, half)]


def operating_sentences(results: Sequence[PointResults]) -> list[str]:
    """Answer for each sweep where most work is done per energy, what that costs and saves, and which limit acts."""
    return [sentence for sweep in sweeps_of(results) for sentence in _sentences(sweep)]


def _sentences(sweep: Sweep) -> list[str]:
    one = sweep.full.results
    name = f"{one.system}, {one.point.model}, {one.point.place}{_precision(one)}"
    sentences = [f"{name}: full speed is at {sweep.full.limits}."]
    if value_at(one.any, "energy.power_kind") == "estimated":
        return [f"{name}: energy is an estimate, and no operating point is chosen by it."]
    for share in (0.0, *SHARES):
        choice = sweep.choice(share)
        at = f"Best with at least {share:.0%} of the full speed" if share else "Most work per energy"
        if choice is None:
            return [*sentences, "No operating point is chosen: the energies are of different kinds, or missing."]
        if choice.best is sweep.full:
            sentences.append(f"{at}: {choice.best.limits}, which is full speed{_ties(choice.ties)}.")
            continue
        speed = choice.best.speed
        words = f" at {100 * speed.value:.1f} % of the speed" if speed else ""
        if choice.is_distinct and choice.saved:
            low, high = (100 * end for end in choice.saved)
            saved = f"saves {100 * choice.saved_share:.1f} % of the energy ({low:.1f} to {high:.1f} %)"
        else:
            why = "" if choice.saved else ": single runs have no interval"
            saved = f"{100 * choice.saved_share:+.1f} % of saved energy is not distinguishable from full speed{why}"
        sentences.append(f"{at}: {choice.best.limits}{words}; {saved}{_ties(choice.ties)}.")
    return [*sentences, *_acting(sweep)]


def _precision(one: PointResults) -> str:
    return f", {one.precision}" if one.precision else ""


def _ties(ties: Sequence[OperatingPoint]) -> str:
    return f"; not distinguishable from it: {'; '.join(str(one.limits) for one in ties)}" if ties else ""


def _acting(sweep: Sweep) -> list[str]:
    """Return sentences on where a power limit binds, and where a clock limit keeps it from binding."""

    def watts(points: Sequence[OperatingPoint]) -> str:
        return ", ".join(f"{one.limits.power_w:g}" for one in points) + " W"

    def mhz(points: Sequence[OperatingPoint]) -> str:
        return ", ".join(f"{one.limits.clock_mhz:g}" for one in points) + " MHz"

    caps = [one for one in sweep.points if one.limits.clock_mhz is None and one.limits.power_w]
    clocked = [one for one in sweep.points if one.limits.clock_mhz]
    binding = [one for one in caps if one.is_bound]
    slack = [one for one in caps if one.is_bound is False]
    free = [one for one in clocked if one.is_bound is False]
    still = [one for one in clocked if one.is_bound]
    sentences = []
    if binding:
        sentences.append(f"The power limit binds at {watts(binding)}{f', not at {watts(slack)}' if slack else ''}.")
    elif slack:
        sentences.append(f"No power limit binds ({watts(slack)}): only a lower clock changes this workload.")
    if free:
        sentences.append(f"With the clock at {mhz(free)}, no power limit binds.")
    if still:
        sentences.append(f"The power limit binds also at {mhz(still)}.")
    return sentences
