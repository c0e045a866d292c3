"""Limits of the results, the most serious first, each with a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from results.points.repeats import PointResults
from results.record.findings import LEFT_OUT, NEIGHBOURS, PLACES, SIZE, TIE, Advice, joined
from results.record.records import Record, Skipped
from results.record.values import PER_DEVICE, grouped
from results.show.page.answer import Decision
from results.show.tables.doubts import alike, deviations_once, energies_apart, failures_once
from results.verdicts.outcome import Outcome
from results.verdicts.ranking import rank, ranked_points


class Limit(NamedTuple):
    """One limit of the results."""

    advice: Advice
    detail: str


def limits(
    records: Sequence[Record],
    skipped: Sequence[Skipped],
    workloads: Sequence[tuple[str, Sequence[PointResults]]],
    disturbed: Sequence[str],
    decision: Decision | None,
) -> list[Limit]:
    """Return all limits of the results, the most serious first."""
    found = [*_left_out(skipped), *_of_records(records)]
    found += _of_decision(decision) if decision else []
    for title, results in workloads:
        found += [] if decision else _ties(title, results)
        found += [Limit(PLACES, f"{title}: {words}") for words in energies_apart(results)]
    every = [one for _, results in workloads for one in results]
    found += [Limit(one.finding.advice, str(one)) for one in deviations_once(every)]
    found += [Limit(NEIGHBOURS, words) for words in disturbed]
    return sorted(found, key=lambda one: one.advice.seriousness)


def measure_next(found: Sequence[Limit]) -> str:
    """Return the most useful further measurement; empty where nothing limits the results."""
    return next((f"{one.advice.remedy} ({one.detail.rstrip('.')})." for one in found if one.advice.is_measurement), "")


def _left_out(skipped: Sequence[Skipped]) -> Iterator[Limit]:
    counted = [one for one in skipped if one.systems is not None]
    for systems, mine in grouped(counted, lambda one: ", ".join(one.systems or ()) or "any system").items():
        yield Limit(LEFT_OUT, f"{systems}: {'; '.join(alike(mine))}")


def _of_records(records: Sequence[Record]) -> Iterator[Limit]:
    for one in failures_once(records):
        yield Limit(one.finding.advice, str(one))


def _of_decision(decision: Decision) -> Iterator[Limit]:
    open_ones = [one for one in decision.verdicts if one.outcome is Outcome.UNDECIDED]
    for (system, reasons), mine in grouped(open_ones, lambda one: (one.system, one.reasons)).items():
        items = "; ".join(str(one.item) for one in mine)
        yield Limit(reasons[0].advice, f"{system}, {items}: {joined(reasons)}")
    ranked = decision.rankings[0][0]
    if ranked.tied:
        names = [ranked.scores[0].system, *ranked.tied]
        yield Limit(TIE, f"{', '.join(names)} {ranked.title}")
    for words in decision.beyond:
        yield Limit(SIZE, words)


def _ties(title: str, results: Sequence[PointResults]) -> Iterator[Limit]:
    for precision, mine in grouped(ranked_points(results), lambda one: one.precision).items():
        ranking = rank(mine, PER_DEVICE)
        if ranking and ranking.tied:
            names = ", ".join(one.system for one in (ranking.first, *ranking.tied))
            yield Limit(TIE, f"{title} in {precision}: {names}")
