"""Points to clarify before signing: deviations and failures, each kind once, and energies of several kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from record.findings import Finding, finding, without_numbers
from record.values import grouped
from results.find.records import Record
from results.points.facts import choices_of, point_of
from results.points.repeats import PointResults
from results.verdicts.quality import deviations
from results.verdicts.ranking import by_energy_kind, ranked_points

OUT_OF_MEMORY = "out_of_memory"
EXAMPLES = 3  # places of a finding that are named


class Place(NamedTuple):
    """Point of a sweep with a finding; points that differ in options alone have the same words."""

    words: str
    options: tuple[str, ...]


class Found(NamedTuple):
    """A finding with all its places; if its numbers differ, it has those of the first."""

    finding: Finding
    places: list[Place]
    differs: bool

    def __str__(self) -> str:
        known = list(dict.fromkeys(place.words for place in self.places))
        such_as = ", such as" if len(known) > EXAMPLES else ":"
        places = f"{len(self.places)} points{such_as} " if len(self.places) > 1 else ""
        more = "; elsewhere with other numbers" if self.differs else ""
        return f"{self.finding} ({places}{'; '.join(known[:EXAMPLES])}{more})"


def once(findings: Iterable[tuple[Place, Finding]]) -> list[Found]:
    """Merge pairs of a place and a finding if only numbers of the findings differ; the most frequent first."""
    kinds = grouped(findings, lambda pair: pair[1].alike)
    merged = [
        Found(pairs[0][1], list(dict.fromkeys(place for place, _ in pairs)), len({str(one) for _, one in pairs}) > 1)
        for pairs in kinds.values()
    ]
    return sorted(merged, key=lambda one: -len(one.places))


def alike(sentences: Iterable[str]) -> list[str]:
    """Merge sentences that differ only in numbers: the first one, with the number of the others."""
    kinds = grouped(sentences, without_numbers)
    return [
        f"{first}{f' (and {len(more)} more with other numbers)' if more else ''}" for first, *more in kinds.values()
    ]


def deviations_once(results: Sequence[PointResults]) -> list[Found]:
    """Return the deviations of points from the rules of a run."""
    return once((_place(one.any, one.variant), finding) for one in results for finding in deviations(one))


def failures_once(records: Sequence[Record]) -> list[Found]:
    """Return the reasons of failed runs."""
    return once((_place(one, choices_of(one)), failure(one)) for one in records if not one.is_good)


def failure(record: Record) -> Finding:
    """Return why a run failed."""
    status, error = record.status, record.error or "no reason recorded"
    return (
        finding("out_of_memory", error=error)
        if status == OUT_OF_MEMORY
        else finding("failed", status=status, error=error)
    )


def _place(record: Record, options: tuple[str, ...]) -> Place:
    point = point_of(record)
    return Place(
        f"{record.system}, {point.model}, {point.place}", (point.benchmark, point.data, point.sample, *options)
    )


def energies_apart(results: Sequence[PointResults]) -> list[str]:
    """Return the kinds of energies that are not ranked with each other; empty for a single kind."""
    kinds = {
        kind: list(dict.fromkeys(one.system for one in mine))
        for kind, mine in by_energy_kind(ranked_points(results)).items()
    }
    if len(kinds) < 2:
        return []
    known = "; ".join(f"{kind} of {', '.join(systems)}" for kind, systems in kinds.items())
    return [f"Energies are of {len(kinds)} kinds, which are not ranked with each other: {known}."]
