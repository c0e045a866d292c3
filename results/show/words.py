"""Sentences on the first system, its lead and what is not ranked, each kind of sentence once."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from record.values import PER_DEVICE, WORK, count, devices_text, grouped, rounded
from results.files.workloads import facts_about
from results.points.estimate import Estimate
from results.points.repeats import PointResults
from results.verdicts.accept import Verdict
from results.verdicts.cost import Costs, cheapest, tied_with_cheapest
from results.verdicts.outcome import Outcome
from results.verdicts.quality import why_not_ranked
from results.verdicts.ranking import by_energy_kind, rank, ranked_points, why_left_out
from results.verdicts.requirements import Requirements
from results.verdicts.scale import Machine
from results.verdicts.score import Change, Ranked, Scored
from results.verdicts.tender.decision import Decision

NEAR = 20.0  # largest factor on a weight that is reported
TWICE = 2.0  # from here on a lead is a factor, and below a percentage
FILLED = "all runs filled nodes, and those of others did not"
OVERLAP, ONE_RUN = "their intervals overlap", "one run gives no interval"


def first_words(what: str, names: Sequence[str], lead: str = "", why_tied: str = OVERLAP) -> str:
    """Return which system is first; `names` has it and those that tie with it, `lead` what it is ahead by."""
    first, *tied = names
    if tied:
        return f"{', '.join(names[:-1])} and {names[-1]} tie {what}: {why_tied}"
    return f"{first} is first {what}, {lead}" if lead else f"{first} is the only system that is ranked {what}"


def lead_words(lead: Estimate | None, other: str) -> str:
    """Return by how much the first is ahead of another system, and how certain that is, in words."""
    if lead is None:
        return f"ahead of {other}"
    if lead.value >= TWICE:
        words, unit, ends = f"{lead.value:.2f} times {other}", "times", [f"{end:.2f}" for end in lead.interval or ()]
    else:
        words, unit = f"{100 * (lead.value - 1):.1f} % ahead of {other}", "%"
        ends = [f"{100 * (end - 1):.1f}" for end in lead.interval or ()]
    certain = f"95 % interval {' to '.join(ends)} {unit}" if ends else "no interval: one run"
    return f"{words} ({certain})"


def of_workload(results: Sequence[PointResults]) -> list[str]:
    """Return who is first at a workload in each precision and kind of energy, and what is not ranked."""
    unit, ranked = results[0].any.work_unit, ranked_points(results)
    sentences: list[str] = []
    is_alone = len({point.system for point in results}) == 1
    precisions = grouped(ranked, lambda point: point.precision)
    for precision, alike in precisions.items():
        words = f" in {precision}" if len(precisions) > 1 else ""
        sentences += _of_value(alike, PER_DEVICE, f"{unit}/s per device{words}", is_alone)
        for kind, of_kind in by_energy_kind([point for point in alike if not why_not_ranked(point)]).items():
            sentences += _of_value(of_kind, WORK, f"{unit}/Wh{words} ({kind})", is_alone)
    return [*sentences, *_not_ranked(results, ranked)]


def _of_value(points: Sequence[PointResults], path: str, what: str, is_alone: bool) -> Iterator[str]:
    ranking = rank(points, path)
    if ranking is None:
        return
    first, tied = ranking.first, ranking.tied
    lead = lead_words(first.over(ranking.behind[0], path), ranking.behind[0].system) if ranking.behind else ""
    why = ONE_RUN if any(len(point.good) < 2 for point in (first, *tied)) else OVERLAP
    if ranking.by_accuracy:
        others = ", ".join(point.system for point in ranking.by_accuracy)
        why += f"; without the accuracy of the sensors, {others} would be behind"
    where = f"; {first.system} at {first.point.place}" if path == WORK else ""
    if is_alone:
        yield f"{first.system} reaches {rounded(first.value(path))} {what}{where}."
    else:
        yield f"{first_words(f'in {what}', [point.system for point in (first, *tied)], lead, why)}{where}."


def _not_ranked(results: Sequence[PointResults], ranked: Sequence[PointResults]) -> Iterator[str]:
    systems, good = {point.system for point in ranked}, [point for point in results if point.good]
    why = [(point, why_left_out(point) or ("" if point.system in systems else FILLED)) for point in good]
    yield from _reasons("Not ranked", why)
    with_energy = [point for point in ranked if point.value(WORK) is not None]
    yield from _reasons("Energy is not ranked", [(point, why_not_ranked(point)) for point in with_energy])
    if bad := sum(len(point.bad) for point in results):
        yield f"{bad} of {count(bad + sum(len(point.good) for point in good), 'run')} failed."


def _reasons(what: str, reasons: Iterable[tuple[PointResults | Scored, object]]) -> list[str]:
    """Return a sentence on each reason, with its systems."""
    known = [(str(why), row.system) for row, why in reasons if why]
    groups = grouped(known, lambda pair: pair[0]).items()
    return [f"{what}: {', '.join(dict.fromkeys(name for _, name in alike))}: {why}." for why, alike in groups]


def scaled_words(ranked: Ranked) -> list[str]:
    """Return the sizes that were not measured, for each workload and measured size."""
    rows = [row for row in ranked.scores if row.value is not None and row.machine.limit]
    speeds = [(name, speed.measured or 0, row.machine) for row in rows for name, speed in row.machine.speeds.items()]
    words = []
    for (name, measured), alike in grouped(speeds, lambda speed: speed[:2]).items():
        scaled = [_machine(machine, measured) for *_, machine in alike if machine.devices != measured]
        words += [f"{name}: {', '.join(scaled)} scaled from {devices_text(measured)}"] if scaled else []
    return words


def _machine(machine: Machine, measured: int) -> str:
    idle = (machine.devices or 0) % measured
    return f"{machine.system} ({machine.devices}{f', {idle} of them idle' if idle else ''})"


def headline(ranked: Ranked) -> str:
    """Return which system is first by its score, as one sentence."""
    known = [row for row in ranked.scores if row.value is not None]
    if not known:
        return f"No system has a score {ranked.title}."
    first, *others = known
    lead = ""
    if others:
        second = others[0]
        both = f"with a score of {_score(first)} against {_score(second)} of {second.system}"
        lead = lead_words(ranked.lead, second.system) if ranked.lead else both
    return f"{first_words(ranked.title, [first.system, *ranked.tied], lead)}."


def _score(row: Scored) -> str:
    """Return a score with its interval."""
    if row.value is None:
        return "not ranked"
    ends = f" ({' to '.join(map(rounded, row.interval))})" if row.interval else f" ({ONE_RUN})"
    return rounded(row.value) + ends


def not_ranked(ranked: Ranked) -> list[str]:
    """Return each reason why systems have no score, as a sentence."""
    return _reasons("Not ranked", [(row, row.why_not) for row in ranked.scores])


def form_of_score(requirements: Requirements, reference: str) -> str:
    """Return a sentence on how a score is computed."""
    if requirements.score:
        terms = "; ".join(
            f"{name} is {quantity.words} of {quantity.of}" for name, quantity in requirements.score.terms.items()
        )
        return f"A score is {requirements.score.formula}, where {terms}."
    weights = ", ".join(f"{name} {wanted.weight:g}" for name, wanted in requirements.workloads.items() if wanted.weight)
    return f"A score is the geometric mean of throughputs over those of {reference}, weighted: {weights}."


def first_of(decision: Decision) -> str:
    """Return which system is first by its score, by how much, and how many requirements it meets."""
    ranked, first = decision.ranked, decision.ranked.scores[0]
    met = met_words(decision.of_system(first.system)) if first.value is not None else ""
    return headline(ranked) + (f" {first.system if ranked.tied else 'It'} {met}." if met else "")


def changes(ranked: Ranked) -> list[tuple[str, str]]:
    """Return the systems that are behind, each with the weight and the discount that make it tie with the first."""
    words = [(change.machine.system, "; ".join(_changes(change, ranked.by_money))) for change in ranked.changes]
    return [(system, sentence) for system, sentence in words if sentence]


def _changes(change: Change, by_money: bool) -> Iterator[str]:
    """Yield the weights and the discount; no weight of one workload, and no discount where money decides nothing."""
    near = [name for name, factor in change.weights.items() if 1 / NEAR <= factor <= NEAR]
    if near:
        yield " or ".join(f"weight of {name} times {change.weights[name]:.3g}" for name in near)
    elif len(change.machine.speeds) > 1:
        is_far = bool(change.weights)
        yield f"no weight by a factor of up to {NEAR:g}" if is_far else "no weight: it is behind in each workload"
    if by_money and change.price:
        # With one decimal that is enough: rounded to the nearest, it may be too low.
        yield f"discount of {math.ceil(1000 * (1 - change.price) - 1e-6) / 10:.1f} %"
    elif by_money:
        limit = change.machine.limit
        yield f"no discount is enough{f', as {limit} limits its size' if limit not in ('', 'money') else ''}"


def met_words(verdicts: Sequence[Verdict]) -> str:
    """Return how many requirements a system meets, as text; empty without any."""
    outcomes = [verdict.outcome for verdict in verdicts]
    passed, failed, undecided = map(outcomes.count, Outcome)
    if not outcomes:
        return ""
    if passed == len(outcomes):
        return f"meets {f'all {passed} requirements' if passed > 1 else 'the requirement'}"
    others = [f"fails {failed}" if failed else "", f"{undecided} undecided" if undecided else ""]
    return f"meets {passed} of {count(len(outcomes), 'requirement')}, {', '.join(filter(None, others))}"


def cost_words(results: Sequence[PointResults], costs: Costs, failed: Collection[str] = ()) -> list[str]:
    """Return sentences on the cheapest system.

    The points are of one workload. Each precision and kind of energy is compared separately, without failed systems.
    """
    out = [system for system in dict.fromkeys(point.system for point in results) if system in failed]
    words = [f"Not compared, as a requirement is failed: {', '.join(out)}."] if out else []
    for (precision, kind), best in cheapest([point for point in results if point.system not in failed], costs).items():
        if len(best) > 1:
            first, *tied = tied_with_cheapest(best)
            single = any(len(best[system][0].good) < 2 for system in (first, *tied))
            tie = first_words("for the cheapest", [first, *tied], "", ONE_RUN if single else OVERLAP)
            who = tie if tied else f"{first} is the cheapest"
            amount = facts_about(results[0].point.benchmark).costed.words
            words.append(f"{results[0].point.model} in {precision} ({kind}): for {amount}, {who}.")
    return words
