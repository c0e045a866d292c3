"""Sentences on the first system, its lead, what is not ranked, and the limits of the results: each kind once."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from record.findings import Finding, finding, without_numbers
from record.kinds import LEFT_OUT, PLACES, SIZE, TIE, Advice
from record.values import PER_DEVICE, WORK, count, devices_text, grouped, rounded
from results.files.workloads import facts_about
from results.find.records import Record, Skipped
from results.points.estimate import Estimate, Outcome
from results.points.facts import choices_of, place_of, point_of
from results.points.repeats import PointResults
from results.verdicts.accept import Verdict
from results.verdicts.cost import Costs, cheapest, tied_with_cheapest
from results.verdicts.quality import by_energy_kind, deviations, rank, ranked_points, why_left_out, why_not_ranked
from results.verdicts.requirements import Requirements
from results.verdicts.scale import Machine
from results.verdicts.score import Change, Ranked, Scored
from results.verdicts.tender import Decision

EXAMPLES = 3  # places of a finding that are named
NEAR = 20.0  # largest factor on a weight that is reported
TWICE = 2.0  # from here on a lead is a factor, and below a percentage
FILLED = "all runs filled nodes, and those of others did not"
OVERLAP, ONE_RUN = "their intervals overlap", "one run gives no interval"

Place = tuple[str, tuple[str, ...]]  # words of a point, and its options


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


def limits(
    records: Sequence[Record],
    skipped: Sequence[Skipped],
    workloads: Sequence[tuple[str, Sequence[PointResults]]],
    decision: Decision | None,
) -> dict[Advice, list[str]]:
    """Return all limits of the results, the most serious first, each with its cases."""
    points = [point for _, results in workloads for point in results]
    failed = ((_place(one, choices_of(one)), failure(one)) for one in records if not one.is_good)
    deviating = ((_place(point.any, point.variant), why) for point in points for why in deviations(point))
    found = [*_left_out(skipped), *_once(failed), *(_of_decision(decision) if decision else ())]
    for title, results in workloads:
        found += _energies_apart(title, results)
    found += _once(deviating)
    cases = grouped(sorted(found, key=lambda case: case[0].seriousness), lambda case: case[0])
    return {advice: [words.rstrip(".") for _, words in of_advice] for advice, of_advice in cases.items()}


def measure_next(found: Mapping[Advice, Sequence[str]]) -> str:
    """Return the measurement that removes the most serious limit; empty where no measurement helps."""
    return next((f"{advice.remedy} ({cases[0]})." for advice, cases in found.items() if advice.is_measurement), "")


def failure(record: Record) -> Finding:
    """Return why a run failed."""
    error = record.error or "no reason recorded"
    if record.status == "out_of_memory":
        return finding("out_of_memory", error=error)
    return finding("failed", status=record.status, error=error)


def merged(sentences: Iterable[str]) -> list[str]:
    """Merge sentences that differ only in numbers: the first one, with the number of the others."""
    kinds = grouped(sentences, without_numbers)
    return [
        f"{first}{f' (and {len(more)} more with other numbers)' if more else ''}" for first, *more in kinds.values()
    ]


def _once(findings: Iterable[tuple[Place, Finding]]) -> list[tuple[Advice, str]]:
    """Merge findings that differ in their numbers alone, each with its places; the most frequent first."""
    found = []
    for pairs in grouped(findings, lambda pair: pair[1].alike).values():
        places = dict.fromkeys(place for place, _ in pairs)
        known = list(dict.fromkeys(words for words, _ in places))
        number = f"{len(places)} points{', such as' if len(known) > EXAMPLES else ':'} " if len(places) > 1 else ""
        more = "; elsewhere with other numbers" if len({str(one) for _, one in pairs}) > 1 else ""
        first = pairs[0][1]
        found.append((len(places), first.advice, f"{first} ({number}{'; '.join(known[:EXAMPLES])}{more})"))
    return [(advice, words) for _, advice, words in sorted(found, key=lambda row: -row[0])]


def _place(record: Record, options: tuple[str, ...]) -> Place:
    point = point_of(record)
    return place_of(record), (point.benchmark, point.data, point.sample, *options)


def _left_out(skipped: Sequence[Skipped]) -> Iterator[tuple[Advice, str]]:
    counted = [one for one in skipped if one.systems is not None]
    for systems, mine in grouped(counted, lambda one: ", ".join(one.systems or ()) or "any system").items():
        yield LEFT_OUT, f"{systems}: {'; '.join(merged(map(str, mine)))}"


def _of_decision(decision: Decision) -> Iterator[tuple[Advice, str]]:
    """Yield sizes, ties, and undecided requirements with their systems, without those that fail another requirement."""
    ranked = decision.ranked
    yield from ((SIZE, words) for words in scaled_words(ranked))
    if ranked.tied:
        yield TIE, f"{', '.join([ranked.scores[0].system, *ranked.tied])} {ranked.title}"
    undecided = [one for one in decision.must if one.outcome is Outcome.UNDECIDED]
    undecided = [one for one in undecided if one.system not in decision.failed]
    for (advice, item), verdicts in grouped(undecided, lambda one: (one.reasons[0].advice, str(one.item))).items():
        reasons = list(dict.fromkeys(one.reason for one in verdicts))
        why = f": {reasons[0]}" if len(reasons) == 1 else ""
        yield advice, f"{', '.join(one.system for one in verdicts)}, {item}{why}"


def _energies_apart(title: str, results: Sequence[PointResults]) -> Iterator[tuple[Advice, str]]:
    """Yield the kinds of energies that are not ranked with each other, if there are several."""
    kinds = by_energy_kind(ranked_points(results))
    if len(kinds) > 1:
        systems = {kind: dict.fromkeys(point.system for point in points) for kind, points in kinds.items()}
        known = "; ".join(f"{kind} of {', '.join(names)}" for kind, names in systems.items())
        yield PLACES, f"{title}: energies are of {len(kinds)} kinds, which are not ranked with each other: {known}"
