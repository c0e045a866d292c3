"""One number of each system over all workloads, as tenders are decided: with its interval, and what it hangs on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from results.points.estimate import Estimate, Interval, Part, exactly, half_interval, overlap, product
from results.points.repeats import PointResults
from results.records import RecordError
from results.values import PER_DEVICE
from results.verdicts.accept import Verdict
from results.verdicts.cost import Costs
from results.verdicts.measures import Answer, answer, check_alike, points_of
from results.verdicts.outcome import Outcome
from results.verdicts.ranking import fastest, ranked_points
from results.verdicts.requirements import Asked, Requirements, Wanted
from results.verdicts.scale import Size, Speed, Total, devices_per_node, energy_kinds, hungriest, sizes, total_of

NOT_SHARED = "no good run in a precision that all have"
EQUAL_DEVICES = "per device"  # where no budget says how many
NEAREST = 3  # systems after the first, for which it is said what would turn the ranking
TITLES = {
    "budget": "within the whole budget",
    EQUAL_DEVICES: "per device, each at its best point",
    "devices": "at equal devices",
    "racks": "at equal racks",
    "money": "at equal money",
    "power": "at equal power",
}


class Scored(NamedTuple):
    """One system's score; `value` is None where `why_not` says why."""

    system: str
    value: float | None
    interval: Interval | None
    devices: int | None
    speeds: Mapping[str, Speed]  # by the workload
    total: Total | None = None
    why_not: str = ""


class Turn(NamedTuple):
    """What would have to change for a system to overtake the first."""

    system: str
    what: str  # weight of NAME, or price of SYSTEM
    factor: float


class Ranked(NamedTuple):
    """All systems by their score at one way to make them equal."""

    by: str  # one of TITLES, or the buyer's formula
    title: str
    scores: list[Scored]  # the best first, those without a score last
    level: list[str]  # systems that cannot be told apart from the first
    turns: list[Turn]
    reference: str = ""  # whose score is 1


def scores(
    results: Sequence[PointResults], requirements: Requirements, costs: Costs | None, verdicts: Sequence[Verdict] = ()
) -> list[Ranked]:
    """Return the rankings that the requirements ask for, the most important first.

    A system that fails a requirement has no score. Raises RecordError for a reference that is not among the systems.
    """
    failed = {one.system: f"it fails the requirement '{one.item}'" for one in verdicts if one.outcome is Outcome.FAILED}
    systems = list(dict.fromkeys(one.system for one in results))
    reference = requirements.reference or systems[0]
    if reference not in systems:
        raise RecordError(f"the reference {reference} is not among the systems: {', '.join(systems)}")
    check_alike(results, requirements.workloads)
    if requirements.score:
        return [_by_formula(results, systems, requirements, reference, failed)]
    alike = {name: _of_one_precision(results, wanted) for name, wanted in requirements.workloads.items()}
    budget = requirements.budget
    if (budget.money and costs is None) or (budget.power_kw and costs is None) or (budget.racks and costs is None):
        raise RecordError("a budget of money, power or racks needs what the machines are: give --prices FILE")
    mine = {
        system: {name: [one for one in points if one.system == system] for name, points in alike.items()}
        for system in systems
    }
    powers = {system: hungriest(mine[system], costs) for system in systems}
    allowed = {}
    for system in systems:
        price = costs.systems.get(system) if costs else None
        per_node = devices_per_node((one for one in results if one.system == system), price)
        allowed[system] = sizes(powers[system], system, budget, costs, per_node)
    kinds = {system: energy_kinds(mine[system]) for system in systems}
    for system, found_sizes in allowed.items():
        why = _unlike_energies(kinds[system], kinds[reference], reference)
        for way in {*budget.by_energy, "budget"} & found_sizes.keys() if why and budget.by_energy else ():
            if found_sizes[way].devices:
                found_sizes[way] = Size(None, why)
    ways = list(next(iter(allowed.values())))
    found = []
    for way in [*ways[:1], *([EQUAL_DEVICES] if "devices" not in ways else []), *ways[1:]]:
        speeds = {
            system: {
                name: _per_device(points) if way == EQUAL_DEVICES else allowed[system][way].speed(points)
                for name, points in mine[system].items()
            }
            for system in systems
        }
        size = {system: Size(1) if way == EQUAL_DEVICES else allowed[system][way] for system in systems}
        totals = {
            system: None if way == EQUAL_DEVICES else total_of(size[system], system, powers[system], costs)
            for system in systems
        }
        found.append(_ranked(way, speeds, size, totals, reference, requirements.workloads, costs, failed))
    return found


def _unlike_energies(kinds: set[str], of_reference: set[str], reference: str) -> str:
    """Why a system's energies are not ranked with those of the reference, in words; empty where they may be."""
    if len(kinds | of_reference) < 2:
        return ""
    names = [" and ".join(sorted(one)) or "not there" for one in (kinds, of_reference)]
    return f"its energy is {names[0]}, that of {reference} is {names[1]}: they are not ranked with each other"


def _of_one_precision(results: Sequence[PointResults], wanted: Wanted) -> list[PointResults]:
    """The points of a workload in the precision that is asked for, or else the one that every system with a good run
    has; with runs that failed before they knew theirs.
    """
    every = [one for one in results if wanted.has(one)]
    good = ranked_points(every)
    has = [{one.precision for one in good if one.system == name} for name in dict.fromkeys(one.system for one in good)]
    if wanted.precision or not has:
        return every
    shared = set.intersection(*has)
    if len(shared) > 1:
        names = " and ".join(sorted(shared))
        raise RecordError(f"{wanted.benchmark} was run in {names}: say in the requirements what 'precision' counts")
    return [one for one in every if one.precision in shared or not (one.good or one.precision)]


def _per_device(points: Sequence[PointResults]) -> Speed:
    best = fastest(ranked_points(points))
    estimate = best.estimate(PER_DEVICE) if best else None
    return Speed(estimate, best.point.place if best else NOT_SHARED)


def _ranked(
    way: str,
    speeds: Mapping[str, Mapping[str, Speed]],
    size: Mapping[str, Size],
    totals: Mapping[str, Total | None],
    reference: str,
    wanted: Mapping[str, Wanted],
    costs: Costs | None,
    failed: Mapping[str, str],
) -> Ranked:
    total = math.fsum(one.weight for one in wanted.values())
    if not total:
        raise RecordError("all weights of the requirements are 0: one above 0 is needed")
    weights = {name: one.weight / total for name, one in wanted.items() if one.weight}

    def over(system: str, base: str) -> Estimate | str:
        ratios = []
        for name, weight in weights.items():
            ours, theirs = speeds[system][name], speeds[base][name]
            for one, who in ((ours, system), (theirs, base)):
                if one.estimate is None:
                    return f"{name} of {who}: {one.words}"
            assert ours.estimate and theirs.estimate
            ratios.append((ours.estimate / theirs.estimate, weight))
        return product(ratios)

    rows = []
    for system in speeds:
        found = exactly(1.0) if system == reference else over(system, reference)
        own = over(system, system)
        if isinstance(own, str) or system in failed:
            found = failed.get(system, own)
        if isinstance(found, str):
            rows.append(Scored(system, None, None, size[system].devices, speeds[system], totals[system], found))
        else:
            rows.append(
                Scored(system, found.value, found.interval, size[system].devices, speeds[system], totals[system])
            )
    rows.sort(key=lambda one: -math.inf if one.value is None else one.value, reverse=True)
    first, *others = rows
    others = [one for one in others if one.value is not None]
    level = [one.system for one in others if overlap(one.interval, first.interval)]
    turns = []
    for one in others[:NEAREST]:
        behind = over(one.system, first.system)
        assert isinstance(behind, Estimate)
        turns += _turns(first.system, one, speeds, weights, behind, way, costs)
    return Ranked(way, TITLES[way], rows, level, turns, reference)


def _turns(
    first: str,
    other: Scored,
    speeds: Mapping[str, Mapping[str, Speed]],
    weights: Mapping[str, float],
    behind: Estimate,
    way: str,
    costs: Costs | None,
) -> list[Turn]:
    """For each weight the factor at which another system draws level with the first, and the first one's price."""
    found = []
    leads = {}
    for name in weights:
        ours, theirs = speeds[first][name].estimate, speeds[other.system][name].estimate
        assert ours and theirs
        leads[name] = math.log(ours.value / theirs.value)
    for name, lead in leads.items():
        of_others = math.fsum(weights[one] * value for one, value in leads.items() if one != name)
        factor = -of_others / (weights[name] * lead) if lead else math.nan
        if factor > 0:
            found.append(Turn(other.system, f"weight of {name}", factor))
    if way == "money" and costs:
        found.append(Turn(other.system, f"price of {first}", 1 / behind.value))
    return found


def _by_formula(
    results: Sequence[PointResults],
    systems: Sequence[str],
    requirements: Requirements,
    reference: str,
    failed: Mapping[str, str],
) -> Ranked:
    """By what the buyer wrote; the interval follows from those of the terms to first order."""
    score = requirements.score
    assert score
    terms = {
        name: _term(results, systems, requirements.workloads[asked.of], asked, reference)
        for name, asked in score.terms.items()
    }
    rows = []
    for system in systems:
        answers = {name: of_systems[system] for name, of_systems in terms.items()}
        missing = [failed[system]] if system in failed else []
        missing += [f"{name}: {one.why_not}" for name, one in answers.items() if one.why_not]
        values = {name: float(one.value) for name, one in answers.items() if one.value is not None}
        value = math.nan if missing else score.formula(values)
        if math.isnan(value):
            reason = "; ".join(missing) or f"{score.formula} has no value of {values}"
            rows.append(Scored(system, None, None, None, {}, None, reason))
            continue
        parts = _parts(score.formula.slopes(values), {name: one.estimate for name, one in answers.items()})
        half = None if parts is None else half_interval(parts)
        interval = None if half is None else Interval(value - half, value + half)
        rows.append(Scored(system, value, interval, None, {}))
    sign = 1 if score.better == "higher" else -1
    rows.sort(key=lambda one: -math.inf if one.value is None else sign * one.value, reverse=True)
    first, *others = rows
    level = [one.system for one in others if one.value is not None and overlap(one.interval, first.interval)]
    title = f"by {score.formula}, {score.better} is better"
    return Ranked(str(score.formula), title, rows, level, [])


def _term(
    results: Sequence[PointResults], systems: Sequence[str], wanted: Wanted, asked: Asked, reference: str
) -> dict[str, Answer]:
    """Of each system, in one precision and of one kind of energy; where it has none such, why not."""
    alike = _of_one_precision(results, wanted)
    found = {}
    for system in systems:
        every, mine = (points_of(points, system, wanted) for points in (results, alike))
        left_out = any(one.good for one in every) and not any(one.good for one in mine)
        found[system] = Answer(why_not=NOT_SHARED) if left_out else answer(mine, asked)
    kinds = {system: {one.energy_kind} for system, one in found.items() if one.energy_kind}
    first = next((system for system in (reference, *systems) if system in kinds), reference)
    for system, of_system in kinds.items():
        if why := _unlike_energies(of_system, kinds[first], first):
            found[system] = Answer(why_not=why)
    return found


def _parts(slopes: Mapping[str, float], estimates: Mapping[str, Estimate | None]) -> tuple[Part, ...] | None:
    """The errors of a formula from those of its terms; a term without an estimate, such as a count, is exact."""
    known = [(slopes[name], one) for name, one in estimates.items() if one]
    if any(one.parts is None for _, one in known):
        return None
    return tuple(Part(part.variance * slope**2, part.freedom) for slope, one in known for part in one.parts or ())
