"""Operating points as a table and in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from results.points.estimate import Estimate
from results.points.operating import SHARES, Choice, OperatingPoint, Sweep, options_of, sweeps_of, unsettled
from results.points.repeats import PointResults
from results.points.setups import LIMIT
from results.record.quantities import Shown, quantities
from results.record.values import THROUGHPUT, WORK, count
from results.show.tables.cells import Amount, Cell, Table
from results.show.tables.point_columns import HALF
from results.show.tables.points import PLACE, place_of
from results.show.tables.table import units_of
from results.verdicts.quality import deviations

LIMITS = [one._replace(shown=Shown.ALWAYS) for one in quantities("power_limit_w", "clock_limit_mhz")]
COLUMNS = [*PLACE, *LIMITS]
COLUMNS += quantities("runs", "work_per_s", HALF, "of full speed", HALF, "work_per_wh", HALF)
COLUMNS += quantities("of full work per energy", HALF, "energy-delay", "power_limited_percent", "settled")


def operating_table(results: Sequence[PointResults]) -> Table:
    """Return a row for each operating point of each sweep."""
    sweeps = sweeps_of(results)
    units = units_of(sweep.full.results.any for sweep in sweeps)
    return Table(COLUMNS, [_row(one) for sweep in sweeps for one in sweep.points], units=units).filled()


def _row(one: OperatingPoint) -> list[Cell]:
    results = one.results
    cells: list[Cell] = [*place_of(results)[:-1], options_of(results), *map(Amount, one.limits), len(results.good)]
    for path, ratio in ((THROUGHPUT, one.speed), (WORK, one.work)):
        half = results.half_width(path)
        cells += [Amount(results.value(path), half), Amount(half, half), *_percent(ratio)]
    return [*cells, _percent(one.energy_delay)[0], Amount(one.limited_percent), unsettled(results) or "yes"]


def _percent(ratio: Estimate | None) -> list[Cell]:
    half = 100 * ratio.interval.half if ratio and ratio.interval and ratio.parts else None
    return [Amount(100 * ratio.value, half), Amount(half, half)] if ratio else [None, None]


def operating_sentences(results: Sequence[PointResults]) -> list[str]:
    """Answer for each sweep where most work is done per energy, what that costs and saves, and which limit acts."""
    sweeps = sweeps_of(results)
    places = {_place(sweep.full.results) for sweep in sweeps}
    failed = sum(len(one.bad) for one in results if _place(one) in places)
    left_out = [f"{count(failed, 'run')} failed: their operating points may be missing here."] if failed else []
    return [*(sentence for sweep in sweeps for sentence in _sentences(sweep)), *left_out]


def _place(one: PointResults) -> tuple[str, str, str]:
    return one.system, one.point.model, one.point.place


def _sentences(sweep: Sweep) -> list[str]:
    choices = {share: choice for share in (0.0, *SHARES) if (choice := sweep.choice(share))}
    if not choices:
        return [
            f"{sweep.name}: no operating point is chosen, as its energy is missing, an estimate, or of several kinds."
        ]
    sentences = [f"{sweep.name}: full speed is at {sweep.full.limits}.", *_held_back(sweep)]
    for share, choice in choices.items():
        at = f"Best with at least {share:.0%} of the full speed" if share else "Most work per energy"
        ties = "; ".join(str(tie.limits) for tie in choice.ties)
        tied = f"; not distinguishable from it: {ties}" if ties else ""
        sentences.append(f"{at}: {choice.best.limits}{_saved(choice, sweep)}{tied}.")
    return [*sentences, *_acting(sweep)]


def _held_back(sweep: Sweep) -> list[str]:
    """Return why the point at full speed is none: savings compared with it may be overstated."""
    found = deviations(sweep.full.results, with_energy=False)
    throttled = [one for one in found if one.kind in ("throttled", "quota")]
    reasons = [str(one) for one in throttled if ("reason", LIMIT) not in one.values]  # the row of each point states it
    faster = [(one.limits, 100 * one.speed.value) for one in sweep.points[1:] if one.is_faster and one.speed]
    reasons += [f"{limits} has {percent:.1f} % of its speed" for limits, percent in faster]
    words = "its runs were held back, and savings compared with it are not those of the device: repeat them"
    return [f"Full speed is in doubt ({'; '.join(reasons)}): {words}."] if reasons else []


def _saved(choice: Choice, sweep: Sweep) -> str:
    if choice.best is sweep.full:
        return ", which is full speed"
    speed, percent = choice.best.speed, 100 * choice.saved_share
    words = f" at {100 * speed.value:.1f} % of the speed; " if speed else "; "
    if choice.saved and choice.saved.low > 0:
        low, high = (100 * end for end in choice.saved)
        return f"{words}saves {percent:.1f} % of the energy ({low:.1f} to {high:.1f} %)"
    why = "" if choice.saved else ", as single runs have no interval"
    return f"{words}its saving of {percent:.1f} % is not distinguishable from none{why}"


def _acting(sweep: Sweep) -> list[str]:
    """Return sentences on where the power limit binds, and where it does not, as a lower clock keeps it from that."""
    names = {
        is_bound: [str(one.limits) for one in sweep.points if one.is_bound is is_bound] for is_bound in (True, False)
    }
    return [
        f"The power limit {'binds' if is_bound else 'does not bind'} at: {'; '.join(points)}."
        for is_bound, points in names.items()
        if points
    ]
