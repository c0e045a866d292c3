"""Operating points as a table and in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from results.points.estimate import Estimate
from results.points.operating import SHARES, Choice, OperatingPoint, Sweep, options_of, sweeps_of, unsettled
from results.points.repeats import PointResults
from results.record.values import THROUGHPUT, WORK, Number, count, rounded
from results.show.tables.fit import Shown, without_empty_columns
from results.show.tables.points import PLACE, place_of

OF_RUNS = (
    "{unit}/s",
    "± 95 %",
    "of full speed [%]",
    "± 95 %",
    "{unit}/Wh",
    "± 95 %",
    "of full work per energy [%]",
    "± 95 %",
)
OF_LIMITS = ("power limit [W]", "clock limit [MHz]", "runs")
SHOWN = {  # the others are always
    "runs": Shown.DIFFERS,
    "energy-delay [%]": Shown.MORE,
    "limit bound [%]": Shown.MORE,
    "settled": Shown.DIFFERS,
}
HEADER = (*PLACE, *OF_LIMITS, *OF_RUNS, "energy-delay [%]", "limit bound [%]", "settled")


def operating_rows(results: Sequence[PointResults], number: Number = rounded) -> list[list[str]]:
    """Return a header and a row for each operating point of each sweep; empty without a sweep."""
    sweeps = sweeps_of(results)
    units = " or ".join(dict.fromkeys(str(sweep.full.results.any.work_unit) for sweep in sweeps))
    rows = [_row(one, number) for sweep in sweeps for one in sweep.points]
    return without_empty_columns([[title.format(unit=units) for title in HEADER], *rows]) if rows else []


def _row(one: OperatingPoint, number: Number) -> list[str]:
    results = one.results
    cells = [*place_of(results)[:-1], ", ".join(options_of(results)), *map(number, one.limits), str(len(results.good))]
    for path, ratio in ((THROUGHPUT, one.speed), (WORK, one.work)):
        half = results.half_width(path)
        cells += [number(results.value(path), half), number(half, half), *_percent(ratio, number)]
    return [*cells, _percent(one.energy_delay, number)[0], number(one.limited_percent), unsettled(results) or "yes"]


def _percent(ratio: Estimate | None, number: Number) -> list[str]:
    half = 100 * ratio.interval.half if ratio and ratio.interval and ratio.parts else None
    return [number(100 * ratio.value, half), number(half, half)] if ratio else ["", ""]


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
    sentences = [f"{sweep.name}: full speed is at {sweep.full.limits}."]
    for share, choice in choices.items():
        at = f"Best with at least {share:.0%} of the full speed" if share else "Most work per energy"
        ties = "; ".join(str(tie.limits) for tie in choice.ties)
        tied = f"; not distinguishable from it: {ties}" if ties else ""
        sentences.append(f"{at}: {choice.best.limits}{_saved(choice, sweep)}{tied}.")
    return [*sentences, *_acting(sweep)]


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
