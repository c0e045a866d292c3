"""Score of each system over all workloads, with its interval and its sensitivity to weights and prices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from jpwr.messages import near
from record.findings import finding
from record.values import PER_DEVICE
from results.find.records import RecordError
from results.points.estimate import Estimate, Interval, Part, exactly, half_interval, overlap, product
from results.points.repeats import PointResults
from results.verdicts.accept import Verdict
from results.verdicts.cost import Costs
from results.verdicts.measures import Answer, answer, check_alike, points_of
from results.verdicts.outcome import Outcome
from results.verdicts.ranking import fastest, ranked_points
from results.verdicts.requirements import Quantity, Requirements, Selection
from results.verdicts.scale import (
    Power,
    Size,
    Speed,
    Total,
    devices_per_node,
    energy_kinds,
    hungriest,
    sizes,
    total_of,
)

NOT_SHARED = "no good run in a precision that all systems have"
EQUAL_DEVICES = "per device"  # without a number of devices in the budget
NEAREST = 3  # systems after the first, for which the change of a weight that would make them first is reported
TITLES = {
    "budget": "within the whole budget",
    EQUAL_DEVICES: "per device, each at its best point",
    "devices": "at equal devices",
    "money": "at equal money",
    "power": "at equal power",
}


class Scored(NamedTuple):
    """Score of one system; `value` is None if `why_not` gives a reason."""

    system: str
    value: float | None
    interval: Interval | None
    devices: int | None
    speeds: Mapping[str, Speed]  # by workload
    total: Total | None = None
    why_not: str = ""
    limit: str = ""  # of the budget, which binds the number of devices


class Turn(NamedTuple):
    """Change of a weight or price with which a system would have at least the score of the first."""

    system: str
    what: str  # weight of NAME, or price of SYSTEM
    factor: float


class Ranked(NamedTuple):
    """Scores of all systems that are made equal in one way, such as equal money."""

    by: str  # one of TITLES, or the buyer's formula
    title: str
    scores: list[Scored]  # the best first, those without a score last
    tied: list[str]  # systems that are not distinguishable from the first
    turns: list[Turn]
    reference: str = ""  # the system with score 1
    lead: Estimate | None = None  # of the first over the second
    by_money: bool = False  # whether the sizes that it compares depend on prices


def scores(
    results: Sequence[PointResults], requirements: Requirements, costs: Costs | None, verdicts: Sequence[Verdict] = ()
) -> list[Ranked]:
    """Return the rankings that the requirements ask for, the most important first.

    A system that fails a requirement has no score. Raises RecordError for a reference that is not among the systems.
    """
    systems = list(dict.fromkeys(one.system for one in results))
    reference = requirements.reference or systems[0]
    if reference not in systems:
        raise RecordError(f"the reference '{reference}' is not among the systems: {near(reference, systems)}")
    requirements = replace(requirements, reference=reference)
    check_alike(results, requirements.workloads)
    failed = {one.system: f"it fails the requirement '{one.item}'" for one in verdicts if one.outcome is Outcome.FAILED}
    if requirements.score:
        return [_by_formula(results, systems, requirements, failed)]
    budget = requirements.budget
    if (budget.money or budget.power_kw) and costs is None:
        raise RecordError("a budget of money or power needs prices of the machines: give --prices FILE")
    if not any(one.weight for one in requirements.workloads.values()):
        raise RecordError("all weights of the requirements are 0: set one above 0")
    offers = _offers(results, systems, requirements, costs)
    ways = list(offers[systems[0]].sizes)
    ways = [*ways[:1], *([EQUAL_DEVICES] if "devices" not in ways else []), *ways[1:]]
    return [_Comparison(way, offers, requirements, costs).ranked(failed) for way in ways]


class _Offer(NamedTuple):
    """One system: its points by workload, its power at the supply, and its size within the budget."""

    points: Mapping[str, Sequence[PointResults]]
    power: Power
    sizes: dict[str, Size]  # by the kind of equality, such as equal devices or equal money
    per_node: int  # devices of a node, which is bought whole


def _offers(
    results: Sequence[PointResults], systems: Sequence[str], requirements: Requirements, costs: Costs | None
) -> dict[str, _Offer]:
    """Return the offers; one whose energy differs in kind from the reference's has no size by power."""
    alike = {name: _of_one_precision(results, wanted) for name, wanted in requirements.workloads.items()}
    points = {
        system: {name: [one for one in every if one.system == system] for name, every in alike.items()}
        for system in systems
    }
    kinds = {system: energy_kinds(by_workload) for system, by_workload in points.items()}
    offers = {}
    for system, by_workload in points.items():
        power, price = hungriest(by_workload, costs), costs.systems.get(system) if costs else None
        unlike = _unlike_energies(kinds, system, requirements.reference) if power.estimate else ""
        per_node = devices_per_node((one for one in results if one.system == system), price)
        by_way = sizes(Power(None, unlike) if unlike else power, system, requirements.budget, costs, per_node)
        offers[system] = _Offer(by_workload, power, by_way, per_node)
    return offers


def _unlike_energies(kinds: Mapping[str, set[str]], system: str, reference: str) -> str:
    """Return why a system's energies are not ranked with the reference's; empty if they are."""
    ours, theirs = kinds[system], kinds[reference]
    if len(ours | theirs) < 2:
        return ""
    names = [" and ".join(sorted(one)) for one in (ours, theirs)]
    return f"its energy is {names[0]}, that of {reference} is {names[1]}: they are not ranked with each other"


def _of_one_precision(results: Sequence[PointResults], wanted: Selection) -> list[PointResults]:
    """Return a workload's points in the wanted precision, else in the one that all systems with good runs have.

    Includes failed runs without a recorded precision. Raises RecordError if there are several such precisions.
    """
    every = wanted.of(results)
    good = ranked_points(every)
    has = [{one.precision for one in good if one.system == name} for name in dict.fromkeys(one.system for one in good)]
    if wanted.precision or not has:
        return every
    shared = set.intersection(*has)
    if len(shared) > 1:
        names = " and ".join(sorted(shared))
        raise RecordError(f"{wanted.benchmark} was run in {names}: set 'precision' of the workload in the requirements")
    return [one for one in every if one.precision in shared or not (one.good or one.precision)]


def _per_device(points: Sequence[PointResults]) -> Speed:
    best = fastest(ranked_points(points))
    estimate = best.estimate(PER_DEVICE) if best else None
    return Speed(estimate, best.point.place if best else NOT_SHARED)


class _Comparison:
    """Comparison of systems made equal in one way, by the weighted geometric mean of their throughputs."""

    def __init__(self, way: str, offers: Mapping[str, _Offer], requirements: Requirements, costs: Costs | None) -> None:
        self._way, self._offers, self._costs = way, offers, costs
        self._reference, self._budget = requirements.reference, requirements.budget
        weights = {name: one.weight for name, one in requirements.workloads.items() if one.weight}
        self._weights = {name: weight / math.fsum(weights.values()) for name, weight in weights.items()}
        self._sizes = {system: one.sizes.get(way, Size(1)) for system, one in offers.items()}
        self._speeds = {
            system: {
                name: _per_device(points) if way == EQUAL_DEVICES else self._sizes[system].speed(points)
                for name, points in one.points.items()
            }
            for system, one in offers.items()
        }

    def ranked(self, failed: Mapping[str, str]) -> Ranked:
        """Return the ranking; failed: why systems have no score."""
        rows, tied = _in_order([self._scored(system, failed.get(system, "")) for system in self._offers])
        first, *others = (one.system for one in rows if one.value is not None or one is rows[0])
        turns = [turn for system in others[:NEAREST] for turn in self._weight_turns(first, system)]
        turns += [turn for system in others for turn in self._price_turn(first, system)]
        lead = self._over(first, others[0]) if others else None
        lead = lead if isinstance(lead, Estimate) else None
        by_money = self._way in ("money", "budget") and bool(self._budget.money)
        return Ranked(self._way, TITLES[self._way], rows, tied, turns, self._reference, lead, by_money)

    def _over(self, system: str, base: str) -> Estimate | str:
        """Return the ratio of two scores, or why there is none."""
        ratios = []
        for name, weight in self._weights.items():
            both = {one: self._speeds[one][name] for one in (system, base)}
            if missing := next((one for one, speed in both.items() if speed.estimate is None), ""):
                return f"{name} of {missing}: {both[missing].words}"
            ours, theirs = both[system].estimate, both[base].estimate
            assert ours and theirs
            ratios.append((ours / theirs, weight))
        return product(ratios)

    def _scored(self, system: str, failed: str) -> Scored:
        own = failed or self._over(system, system)
        if not isinstance(own, str):
            own = exactly(1.0) if system == self._reference else self._over(system, self._reference)
        value, interval, why_not = (None, None, own) if isinstance(own, str) else (own.value, own.interval, "")
        size, is_sized = self._sizes[system], self._way != EQUAL_DEVICES
        total = total_of(size, system, self._offers[system].power, self._costs) if is_sized else None
        return Scored(system, value, interval, size.devices, self._speeds[system], total, why_not, size.limit)

    def _weight_turns(self, first: str, other: str) -> Iterator[Turn]:
        """Yield for each weight the factor at which another system ties with the first."""
        leads = {}
        for name in self._weights:
            ours, theirs = (self._speeds[system][name].estimate for system in (first, other))
            assert ours and theirs
            leads[name] = math.log(ours.value / theirs.value)
        for name, lead in leads.items():
            others_lead = math.fsum(self._weights[one] * value for one, value in leads.items() if one != name)
            factor = -others_lead / (self._weights[name] * lead) if lead else math.nan
            if factor > 0:
                yield Turn(other, f"weight of {name}", factor)

    def _price_turn(self, first: str, other: str) -> Iterator[Turn]:
        """Yield the factor of the price at which another system, in whole nodes and full jobs, is not behind the first.

        None where the number of devices does not depend on money, or no price suffices within the other limits.
        """
        offer, money = self._offers[other], self._budget.money
        if not (self._costs and money and self._way in ("money", "budget")):
            return
        measured = (speed.measured or 1 for speed in self._speeds[other].values())
        step = math.lcm(offer.per_node, *measured)  # multiples of it leave no device idle: the score is linear
        least = self._score(first, self._sizes[first]) * (1 - 1e-9)
        size = self._sizes[other]
        devices = step * math.ceil(least / self._score(other, size._replace(devices=step)))
        others = offer.sizes.keys() - {"money", "budget"} if self._way == "budget" else ()
        most = min((offer.sizes[way].devices or math.inf for way in others), default=math.inf)
        is_enough = self._score(other, size._replace(devices=devices)) >= least
        if (size.devices or 0) < devices <= most and is_enough:
            yield Turn(other, f"price of {other}", money / devices / self._costs.systems[other].price_per_device)

    def _score(self, system: str, size: Size) -> float:
        """Return the weighted product of a system's throughputs at a size; 0 without one of them."""
        points = self._offers[system].points
        speeds = {name: size.speed(points[name]).estimate for name in self._weights}
        return math.prod(one.value ** self._weights[name] if one else 0.0 for name, one in speeds.items())


def _in_order(rows: Sequence[Scored], sign: int = 1) -> tuple[list[Scored], list[str]]:
    """Return the scores, the best first and missing ones last, and the systems that tie with the first."""
    rows = sorted(rows, key=lambda one: -math.inf if one.value is None else sign * one.value, reverse=True)
    first, *others = rows
    return rows, [one.system for one in others if one.value is not None and overlap(one.interval, first.interval)]


def _by_formula(
    results: Sequence[PointResults],
    systems: Sequence[str],
    requirements: Requirements,
    failed: Mapping[str, str],
) -> Ranked:
    """Rank the systems by the buyer's formula; the interval follows from those of the terms to first order."""
    score = requirements.score
    assert score
    terms = {
        name: _term(results, systems, requirements.workloads[quantity.of], quantity, requirements.reference)
        for name, quantity in score.terms.items()
    }
    rows = []
    for system in systems:
        answers = {name: by_system[system] for name, by_system in terms.items()}
        missing = [failed[system]] if system in failed else []
        missing += [f"{name}: {one.why_not}" for name, one in answers.items() if one.why_not]
        values = {name: float(one.value) for name, one in answers.items() if one.value is not None}
        value = math.nan if missing else score.value(values)
        slopes = {} if missing else score.value.slopes(values)
        if any(map(math.isnan, (value, *slopes.values()))):
            reason = "; ".join(missing) or f"{score.formula} has no value of {values}"
            rows.append(Scored(system, None, None, None, {}, None, reason))
            continue
        parts = _parts(slopes, answers)
        choices = math.prod(one.points for one in answers.values())
        half = None if parts is None else half_interval(parts, choices)
        interval = None if half is None else Interval(value - half, value + half)
        rows.append(Scored(system, value, interval, None, {}))
    rows, tied = _in_order(rows, 1 if score.better == "higher" else -1)
    title = f"by {score.formula}, {score.better} is better"
    return Ranked(str(score.formula), title, rows, tied, [])


def _term(
    results: Sequence[PointResults], systems: Sequence[str], wanted: Selection, quantity: Quantity, reference: str
) -> dict[str, Answer]:
    """Return each system's answer, in one precision and with one kind of energy, or the reason why it has none."""
    alike = _of_one_precision(results, wanted)
    answers = {}
    for system in systems:
        every, mine = (points_of(points, system, wanted) for points in (results, alike))
        left_out = any(one.good for one in every) and not any(one.good for one in mine)
        answers[system] = (
            Answer(why_not=finding("repeats_needed", why=NOT_SHARED)) if left_out else answer(mine, quantity)
        )
    kinds = {system: {one.energy_kind} for system, one in answers.items() if one.energy_kind}
    first = next((system for system in (reference, *systems) if system in kinds), reference)
    for system in kinds:
        if why := _unlike_energies(kinds, system, first):
            answers[system] = Answer(why_not=finding("repeats_needed", why=why))
    return answers


def _parts(slopes: Mapping[str, float], answers: Mapping[str, Answer]) -> list[Part] | None:
    """Return the uncertainty of a formula from that of its terms; a term without an estimate is exact.

    Errors of terms from the same runs, or by the same sensor model, are correlated: their sum is linear.
    """
    found = []
    for name, term in answers.items():
        if term.estimate is None:
            continue
        if term.estimate.parts is None:
            return None
        runs = (term.best.point, term.best.variant) if term.best else name
        for number, part in enumerate(term.estimate.parts):
            error = abs(slopes[name] * part.error)
            found.append(Part(error, part.freedom, part.source or (runs, number)))
    return found
