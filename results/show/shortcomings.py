"""Limits of the results, the most serious first, each with a remedy; what differs in numbers alone is stated once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from record.findings import Finding, finding, without_numbers
from record.kinds import LEFT_OUT, PLACES, SIZE, TIE, Advice
from record.values import grouped
from results.find.records import Record, Skipped
from results.points.estimate import Outcome
from results.points.facts import choices_of, place_of, point_of
from results.points.repeats import PointResults
from results.show.words import scaled_words
from results.verdicts.quality import deviations
from results.verdicts.ranking import by_energy_kind, ranked_points
from results.verdicts.tender.decision import Decision

EXAMPLES = 3  # places of a finding that are named

Place = tuple[str, tuple[str, ...]]  # words of a point, and its options


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


def alike(sentences: Iterable[str]) -> list[str]:
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
        yield LEFT_OUT, f"{systems}: {'; '.join(alike(map(str, mine)))}"


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
