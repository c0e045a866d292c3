"""Points to clarify before signing: deviations and failures, each kind once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from record.findings import Finding, finding, without_numbers
from record.kinds import Advice
from record.values import grouped
from results.find.records import Record
from results.points.facts import choices_of, place_of, point_of
from results.points.repeats import PointResults
from results.verdicts.quality import deviations

EXAMPLES = 3  # places of a finding that are named


Place = tuple[str, tuple[str, ...]]  # words of a point, and its options


def once(findings: Iterable[tuple[Place, Finding]]) -> list[tuple[Advice, str]]:
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


def alike(sentences: Iterable[str]) -> list[str]:
    """Merge sentences that differ only in numbers: the first one, with the number of the others."""
    kinds = grouped(sentences, without_numbers)
    return [
        f"{first}{f' (and {len(more)} more with other numbers)' if more else ''}" for first, *more in kinds.values()
    ]


def deviations_once(results: Sequence[PointResults]) -> list[tuple[Advice, str]]:
    """Return the deviations of points from the rules of a run."""
    return once((_place(one.any, one.variant), finding) for one in results for finding in deviations(one))


def failures_once(records: Sequence[Record]) -> list[tuple[Advice, str]]:
    """Return the reasons of failed runs."""
    return once((_place(one, choices_of(one)), failure(one)) for one in records if not one.is_good)


def failure(record: Record) -> Finding:
    """Return why a run failed."""
    error = record.error or "no reason recorded"
    if record.status == "out_of_memory":
        return finding("out_of_memory", error=error)
    return finding("failed", status=record.status, error=error)


def _place(record: Record, options: tuple[str, ...]) -> Place:
    point = point_of(record)
    return place_of(record), (point.benchmark, point.data, point.sample, *options)
