"""Answers of the first screen: the first system, its lead, the requirements it meets, and what would change that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from record.values import PER_DEVICE, WORK, count, grouped, rounded
from results.files.quantities import quantities
from results.files.workloads import workloads
from results.find.records import Skipped
from results.points.estimate import Estimate, Interval
from results.points.repeats import PointResults
from results.show.page.cards import Card, cost_of_a_million, figures, machine
from results.show.tables.accept import verdict_table
from results.show.tables.cells import Table
from results.show.tables.decision import (
    NEAR,
    Matrix,
    Scaled,
    counts,
    form_of_score,
    matrix,
    ranking_table,
    ranking_words,
    scaled,
    score_table,
    without_score,
)
from results.show.tables.doubts import alike
from results.verdicts.accept import Verdict
from results.verdicts.cost import Cheapest, Costs, cheapest, crossings, tied_with_cheapest
from results.verdicts.outcome import Outcome
from results.verdicts.quality import ESTIMATE, energy_kind, grade, why_not_ranked
from results.verdicts.ranking import fastest, filled_apart, rank, ranked_points
from results.verdicts.requirements import Requirements
from results.verdicts.score import NEAREST, Ranked, Scored, scores
from results.verdicts.tender.award import Tender, judge_tender
from results.verdicts.tender.pledge import Pledge

TWICE = 2.0  # from here on a lead is a factor, and below a percentage


class Answer(NamedTuple):
    """The answer for one workload, or for all of them: one sentence, its reasons, and the figures behind it."""

    title: str
    sentence: str
    reasons: list[str]
    cards: list[Card]


class Decision(NamedTuple):
    """Assessment of the results against the requirements."""

    answer: Answer
    matrix: Matrix
    counts: list[str]  # of met, failed and undecided requirements, and whose runs are missing
    verdicts: list[Verdict]
    details: Table  # of the verdicts
    changes: Table  # what would make another system first
    failed: set[str]  # systems that fail a requirement
    rankings: list[tuple[Ranked, list[str], Table]]  # with its sentences
    scores: Table  # of all rankings
    form: str  # how a score is made of its parts
    scaled: list[Scaled]  # sizes that were not measured
    without_score: list[str]  # reasons of systems that meet the requirements
    tender: Tender
    pledged: Matrix
    pledge_details: Table


def decide(
    results: Sequence[PointResults],
    requirements: Requirements,
    costs: Costs | None,
    skipped: Sequence[Skipped] = (),
    pledge: Pledge | None = None,
) -> Decision:
    """Return verdicts and scores; raises RecordError where the requirements or the pledge do not fit the results."""
    tender = judge_tender(results, requirements, pledge, skipped)
    requirements, verdicts = tender.requirements, tender.must
    found = scores(results, requirements, costs, verdicts)
    currency = costs.currency if costs else ""
    reasons = {
        name: alike(str(one) for one in skipped if one.may_be_of(name)) for name in {one.system for one in results}
    }
    missing = [f"{system}: runs are missing: {'; '.join(words)}." for system, words in sorted(reasons.items()) if words]
    failed = {one.system for one in verdicts if one.outcome is Outcome.FAILED}
    of_others = [one._replace(scores=[each for each in one.scores if each.system not in failed]) for one in found]
    units = {name: workloads()[wanted.benchmark].work_unit for name, wanted in requirements.workloads.items()}
    rankings = [(one, ranking_words(one, verdicts), score_table(one, units, currency)) for one in found]
    return Decision(
        _overall(found[0], verdicts, results, requirements, costs),
        matrix(verdicts),
        [*counts(verdicts), *missing],
        verdicts,
        verdict_table(verdicts),
        _changes(found, failed, results, costs),
        failed,
        rankings,
        ranking_table(found),
        form_of_score(requirements, found),
        scaled(found[0]),
        without_score(of_others),
        tender,
        matrix(tender.pledged),
        verdict_table(tender.pledged, "pledge"),
    )


def lead_words(lead: Estimate, other: str) -> str:
    """Return by how much the first is ahead of another system, and how certain that is, in words."""
    if lead.value >= TWICE:
        low_high = [f"{end:.2f}" for end in lead.interval or ()]
        words, unit = f"{lead.value:.2f} times {other}", " times"
    else:
        low_high = [f"{100 * (end - 1):.1f}" for end in lead.interval or ()]
        words, unit = f"{100 * (lead.value - 1):.1f} % ahead of {other}", " %"
    return words + (f" (95 % interval {' to '.join(low_high)}{unit})" if low_high else " (no interval: one run)")


def _overall(
    ranked: Ranked,
    verdicts: Sequence[Verdict],
    results: Sequence[PointResults],
    requirements: Requirements,
    costs: Costs | None,
) -> Answer:
    """Return the answer over all workloads."""
    title = "first system"
    known = [one for one in ranked.scores if one.value is not None]
    failed = {one.system for one in verdicts if one.outcome is Outcome.FAILED}
    left_out = grouped(
        [one for one in ranked.scores if one.value is None],
        lambda one: "a requirement is not met" if one.system in failed else one.why_not,
    )
    reasons = [f"Not ranked: {', '.join(one.system for one in mine)}, as {why}." for why, mine in left_out.items()]
    if not known:
        return Answer(title, f"No system has a score {ranked.title}.", reasons, [])
    first, *others = known
    met, total, undecided = _met(first.system, verdicts)
    every = f"all {total} requirements" if total > 1 else "the requirement"
    meets = f"it meets {every if met == total else f'{met} of ' + count(total, 'requirement')}" if total else ""
    if ranked.tied:
        names = " and ".join([first.system, *ranked.tied])
        sentence = f"{names} tie {ranked.title}: the data does not show which is first"
        meets = meets.replace("it", first.system, 1)
    elif not others:
        sentence = f"{first.system} is the only system with a score {ranked.title}"
    else:
        lead = lead_words(ranked.lead, others[0].system) if ranked.lead else _two_scores(first, others[0])
        sentence = f"{first.system} is first {ranked.title}, {lead}"
    mine = [one for one in results if one.system == first.system]
    cards = list(machine(first, mine, requirements.budget, costs))
    if cards and total:
        cards = [Card(first.system, "Requirements met", "", f"{met} of {total}", f"{total - met} undecided"), *cards]
    return Answer(title, f"{sentence}; {meets}." if meets else f"{sentence}.", [*undecided, *reasons], cards)


def _two_scores(first: Scored, second: Scored) -> str:
    ours, theirs = (rounded(one.value) + _between(one.interval) for one in (first, second))
    return f"with a score of {ours} against {theirs} of {second.system}"


def _between(interval: Interval | None) -> str:
    return f" ({rounded(interval.low)} to {rounded(interval.high)})" if interval else " (no interval: one run)"


def _met(system: str, verdicts: Sequence[Verdict]) -> tuple[int, int, list[str]]:
    """Return how many requirements a system meets, of how many, and why each other one is undecided."""
    mine = [one for one in verdicts if one.system == system]
    left = [one for one in mine if one.outcome is not Outcome.PASSED]
    words = [
        f"Undecided for {system} ({reason}): {'; '.join(str(one.item) for one in items)}."
        for reason, items in grouped(left, lambda one: one.reason).items()
    ]
    return len(mine) - len(left), len(mine), words


def _changes(
    rankings: Sequence[Ranked], failed: set[str], results: Sequence[PointResults], costs: Costs | None
) -> Table:
    """Return which discount and which weight would make each other system tie with the first, if it may be first."""
    whole = rankings[0]
    first, *others = whole.scores
    columns = quantities("system", *(f"{what} to tie with {first.system}" for what in ("discount", "weight")))
    if first.value is None:
        others = []
    found = []
    for index, other in enumerate(others):
        if other.system in failed:
            continue
        if other.value is None:
            found.append([other.system, f"none: {other.why_not}", "none"])
        elif other.system in whole.tied:
            found.append([other.system, "ties already", "ties already"])
        else:
            weights = _weights(whole, other.system, index)
            found.append([other.system, _discount(whole, other.system, results, costs), weights])
    return Table(columns, found)


def _weights(ranked: Ranked, system: str, index: int) -> str:
    if not ranked.scores[0].speeds:
        return "none: a formula has no weights"
    if index >= NEAREST:
        return ""
    turns = [one for one in ranked.turns if one.system == system and not one.what.startswith("price")]
    near = [f"{one.what} times {one.factor:.3g}" for one in turns if 1 / NEAR <= one.factor <= NEAR]
    if near:
        return " or ".join(near)
    return (
        f"none by a factor of up to {NEAR:g}"
        if turns
        else f"none: behind {ranked.scores[0].system} in each workload at this size"
    )


def _discount(whole: Ranked, other: str, results: Sequence[PointResults], costs: Costs | None) -> str:
    """Return the discount with which another system is no longer behind in a ranking that money decides.

    Where it does not, return the discount with which it costs as much for the work.
    """
    first = whole.scores[0].system
    if whole.by_money:
        price = next((one for one in whole.turns if (one.system, one.what) == (other, f"price of {other}")), None)
        return f"{_rounded_up(100 * (1 - price.factor))} %" if price else "none: no discount is enough"
    if costs is None:
        return "unknown without prices (--prices FILE)"
    found = []
    for mine in grouped(results, lambda one: one.point.benchmark).values():
        for kind, systems in cheapest(mine, costs).items():
            if first in systems and other in systems:
                pair = {name: systems[name] for name in (first, other)}
                found.append(f"{_of_cost(pair, first, other, costs)} for {mine[0].point.model} in {kind}")
    return "; ".join(found) or f"unknown: no cost to compare with that of {first}"


def _rounded_up(percent: float) -> str:
    """Return a discount with one decimal that is enough: rounded to the nearest, it may be too low."""
    return f"{math.ceil(10 * percent - 1e-6) / 10:.1f}"


def _of_cost(pair: Cheapest, first: str, other: str, costs: Costs) -> str:
    if tied_with_cheapest(pair) != [first]:
        return "none: not more expensive"
    price = next((one.price for one in crossings(pair, costs) if one.system == other), 0.0)
    now = costs.systems[other].price_per_device
    return f"{100 * (1 - price / now):.1f} %" if price > 0 else "none: its electricity costs more"


def of_workload(title: str, results: Sequence[PointResults], of_system: str = "", costs: Costs | None = None) -> Answer:
    """Return the answer for one workload, with key figures of a system, or else of the fastest."""
    good = [one for one in results if one.good]
    precisions = grouped(ranked_points(results), lambda one: one.precision)
    main = max(precisions.values(), key=lambda mine: len({one.system for one in mine}), default=good)
    subject = fastest(one for one in main if one.system == of_system) or fastest(main)
    if subject is None:
        return Answer(title, f"{title}: no run {'has a throughput' if good else 'succeeded'}.", [], [])
    mine = [one for one in main if one.system == subject.system]
    work = fastest([one for one in mine if not why_not_ranked(one)], WORK) or fastest(mine, WORK)
    cards, unit = list(figures(subject, work)), str(subject.any.work_unit)
    if costs:
        cards.insert(2, cost_of_a_million(mine, costs))
    if not precisions:
        small = "These runs are of a smaller workload, to try the suite: compare them with no other result."
        reasons = [small if not subject.is_comparable else "These runs are not ranked: their precision is not known."]
        return Answer(title, f"{title}: {_alone(subject, work, unit)}", reasons, cards)
    others = [name for name, points in precisions.items() if points is not main]
    reasons = [f"Not ranked with these: runs in {', '.join(others)}, see below."] if others else []
    reasons += filter(None, [filled_apart(results)])
    if len({one.system for one in good}) == 1:
        return Answer(title, f"{title}: {_alone(subject, work, unit)}", reasons, cards)
    speed = _lead(main, PER_DEVICE, f"{unit}/s per device", "the fastest per device")
    kinds = grouped([one for one in main if not why_not_ranked(one)], lambda one: energy_kind(one.any))
    energy = [_lead(mine, WORK, f"{unit}/Wh", f"the most efficient ({kind})") for kind, mine in kinds.items()]
    return Answer(title, f"{title}: {speed}", [*energy, *reasons], cards)


def _alone(speed: PointResults, work: PointResults | None, unit: str) -> str:
    per_wh = f" and {rounded(work.value(WORK))} {unit}/Wh" if work else ""
    estimated = " (energy estimated from load)" if work and grade(work.any) == ESTIMATE else ""
    return f"{speed.system} reaches {rounded(speed.value(PER_DEVICE))} {unit}/s per device{per_wh}{estimated}."


def _lead(results: Sequence[PointResults], path: str, unit: str, what: str) -> str:
    """Return which system is first by a value, and by how much, in one sentence."""
    ranking = rank(results, path)
    if ranking is None:
        return ""
    first, level, behind, *_ = ranking
    value = f"{rounded(first.value(path))} {unit}"
    if level:
        values = " and ".join(f"{one.system} ({rounded(one.value(path))})" for one in (first, *level))
        single = any(len(one.good) < 2 for one in (first, *level))
        why = "a single run has no interval" if single else "their intervals overlap"
        return f"{values} {unit} tie as {what}: {why}."
    if not behind:
        return f"{first.system} reaches {value}. It is the only one ranked, which does not make it {what}."
    lead = first.over(behind[0], path)
    return f"{first.system} is {what} with {value}" + (f", {lead_words(lead, behind[0].system)}." if lead else ".")
