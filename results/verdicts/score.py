"""Score of each system over all workloads, with its interval and its sensitivity to weights and prices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from jpwr.messages import near
from record.findings import finding
from record.values import grouped
from results.find.records import RecordError
from results.points.estimate import Estimate, Interval, Outcome, Part, exactly, half_interval, overlap, product
from results.points.repeats import PointResults
from results.verdicts.accept import Verdict
from results.verdicts.cost import Costs
from results.verdicts.measures import Answer, answer, check_alike
from results.verdicts.quality import energy_kind, ranked_points
from results.verdicts.requirements import MEASURED, Budget, Quantity, Requirements, Selection
from results.verdicts.scale import NOT_SHARED, Machine, devices_per_node, hungriest, on_most_devices

NEAREST = 3  # systems behind the first, of which is reported what would change that


class Scored(NamedTuple):
    """Score of one system; `value` is None if `why_not` gives a reason."""

    machine: Machine
    value: float | None
    interval: Interval | None = None
    why_not: str = ""

    @property
    def system(self) -> str:
        """Name of the system."""
        return self.machine.system


class Change(NamedTuple):
    """Factors of weights and price, each of which gives a system that is behind the score of the first."""

    machine: Machine
    weights: Mapping[str, float]  # by workload
    price: float | None  # None if no price is low enough, or money decides nothing


class Ranked(NamedTuple):
    """Scores of all systems, each in the size that the budget allows, or per device without a budget."""

    title: str
    scores: list[Scored]  # the best first, those without a score last
    tied: list[str]  # systems that are not distinguishable from the first
    changes: Sequence[Change] = ()
    reference: str = ""  # the system with score 1
    lead: Estimate | None = None  # of the first over the second
    by_money: bool = False  # whether the sizes that it compares depend on prices


def ranking_of(
    results: Sequence[PointResults], requirements: Requirements, costs: Costs | None, verdicts: Sequence[Verdict] = ()
) -> Ranked:
    """Return the ranking that the requirements ask for.

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
        return _by_formula(results, systems, requirements, failed)
    budget = requirements.budget
    if (budget.money or budget.power_kw) and costs is None:
        raise RecordError("a budget of money or power needs prices of the machines: give --prices FILE")
    if not any(one.weight for one in requirements.workloads.values()):
        raise RecordError("all weights of the requirements are 0: set one above 0")
    return _by_weights(_machines(results, systems, requirements, costs), requirements, failed)


def _machines(
    results: Sequence[PointResults], systems: Sequence[str], requirements: Requirements, costs: Costs | None
) -> dict[str, Machine]:
    """Return the machines; one whose energy differs in kind from the reference's has no size by power."""
    alike = {name: _of_one_precision(results, wanted) for name, wanted in requirements.workloads.items()}
    points = {
        system: {name: [one for one in every if one.system == system] for name, every in alike.items()}
        for system in systems
    }
    best = {system: on_most_devices(points[system]) for system in systems}
    kinds = {system: {energy_kind(one.any) or "" for one in best[system].values() if one} - {""} for system in systems}
    machines = {}
    for system in systems:
        price = costs.systems.get(system) if costs else None
        per_node = devices_per_node([one for one in results if one.system == system], price)
        unlike, power = _unlike_energies(kinds, system, requirements.reference), hungriest(best[system], costs)
        machines[system] = Machine(system, points[system], costs, per_node, power, unlike)
    return machines


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
    good = grouped(ranked_points(every), lambda one: one.system)
    if wanted.precision or not good:
        return every
    shared = set.intersection(*({one.precision for one in points} for points in good.values()))
    if len(shared) > 1:
        names = " and ".join(sorted(shared))
        raise RecordError(f"{wanted.benchmark} was run in {names}: set 'precision' of the workload in the requirements")
    return [one for one in every if one.precision in shared or not (one.good or one.precision)]


def _by_weights(machines: Mapping[str, Machine], requirements: Requirements, failed: Mapping[str, str]) -> Ranked:
    """Rank the systems by the weighted geometric mean of their throughputs; failed: why systems have no score."""
    reference, budget = requirements.reference, requirements.budget
    given = {name: one.weight for name, one in requirements.workloads.items() if one.weight}
    weights = {name: weight / math.fsum(given.values()) for name, weight in given.items()}
    machines = {system: machine.within(budget) for system, machine in machines.items()}
    scores = {system: _weighted(machine, weights) for system, machine in machines.items()}
    rows = []
    for system, machine in machines.items():
        ours, theirs = scores[system], scores[reference]
        if system in failed or isinstance(ours, str) or isinstance(theirs, str):
            why_not = failed.get(system) or next(one for one in (ours, theirs) if isinstance(one, str))
            rows.append(Scored(machine, None, why_not=why_not))
        else:
            ratio = exactly(1.0) if system == reference else ours / theirs
            rows.append(Scored(machine, ratio.value, ratio.interval))
    rows, tied = _in_order(rows)
    first, *others = (row.machine for row in rows if row.value is not None or row is rows[0])
    behind = [machine for machine in others if machine.system not in tied][:NEAREST]
    changes = [
        Change(other, _weights_of_tie(first, other, weights), _price_of_tie(first, other, weights, budget))
        for other in behind
    ]
    best = [scores[machine.system] for machine in (first, *others[:1])]
    lead = best[0] / best[1] if others and isinstance(best[0], Estimate) and isinstance(best[1], Estimate) else None
    return Ranked(budget.title, rows, tied, changes, reference, lead, bool(budget.money))


def _weighted(machine: Machine, weights: Mapping[str, float]) -> Estimate | str:
    """Return the weighted product of a machine's throughputs, or why there is none."""
    factors = []
    for name, weight in weights.items():
        estimate, words, _ = machine.speeds[name]
        if estimate is None:
            return f"{name} of {machine.system}: {words}"
        factors.append((estimate, weight))
    return product(factors)


def _weights_of_tie(first: Machine, other: Machine, weights: Mapping[str, float]) -> dict[str, float]:
    """Return the factor of each weight at which another system ties with the first, if there is one."""
    leads, factors = {}, {}
    for name in weights:
        ours, theirs = (machine.speeds[name].estimate for machine in (first, other))
        assert ours and theirs
        leads[name] = weights[name] * math.log(ours.value / theirs.value)
    for name, lead in leads.items():
        factor = 1 - math.fsum(leads.values()) / lead if lead else math.nan
        if factor > 0:
            factors[name] = factor
    return factors


def _price_of_tie(first: Machine, other: Machine, weights: Mapping[str, float], budget: Budget) -> float | None:
    """Return the factor of the price at which another system, in whole nodes and full jobs, is not behind the first.

    None if the size does not depend on money, or no price suffices within the other limits.
    """

    def score(machine: Machine) -> float:
        product = _weighted(machine, weights)
        return product.value if isinstance(product, Estimate) else 0.0

    if not (budget.money and other.price):
        return None
    measured = (speed.measured or 1 for speed in other.speeds.values())
    step = math.lcm(other.per_node or 1, *measured)  # multiples of it leave no device idle: the score is linear
    least = score(first) * (1 - 1e-9)
    devices = step * math.ceil(least / score(replace(other, devices=step)))
    most = other.within(replace(budget, money=None)).devices or math.inf
    is_enough = (other.devices or 0) < devices <= most and score(replace(other, devices=devices)) >= least
    return budget.money / devices / other.price.price_per_device if is_enough else None


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
    terms = {name: _term(results, systems, requirements, quantity) for name, quantity in score.terms.items()}
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
            rows.append(Scored(Machine(system), None, why_not=reason))
            continue
        parts = _parts(slopes, answers)
        choices = math.prod(one.points for one in answers.values())
        half = None if parts is None else half_interval(parts, choices)
        interval = None if half is None else Interval(value - half, value + half)
        rows.append(Scored(Machine(system), value, interval))
    rows, tied = _in_order(rows, 1 if score.better == "higher" else -1)
    title = f"by {score.formula}, {score.better} is better"
    return Ranked(title, rows, tied)


def _term(
    results: Sequence[PointResults], systems: Sequence[str], requirements: Requirements, quantity: Quantity
) -> dict[str, Answer]:
    """Return each system's answer, in one precision and with one kind of energy, or the reason why it has none."""
    wanted, reference = requirements.workloads[quantity.of], requirements.reference
    alike = _of_one_precision(results, wanted)
    answers = {}
    for system in systems:
        every, mine = (wanted.of(one for one in points if one.system == system) for points in (results, alike))
        if any(one.good for one in every) and not any(one.good for one in mine):
            answers[system] = Answer(why_not=finding("repeats_needed", why=NOT_SHARED))
        else:
            answers[system] = answer(mine, quantity, requirements.machine_devices)
    is_energy = quantity.what in MEASURED and MEASURED[quantity.what].path.startswith("energy.")
    best = {system: one.best for system, one in answers.items() if is_energy and one.best}
    kinds = {system: {energy_kind(point.any) or ""} for system, point in best.items()}
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
