"""Limits of the results, the most serious first, each with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from results.points.repeats import PointResults
from results.record.records import Record, Skipped
from results.record.values import PER_DEVICE, grouped
from results.show.page.answer import Decision
from results.show.tables.doubts import alike, deviations_once, energies_apart, failures_once
from results.verdicts.outcome import Outcome
from results.verdicts.ranking import rank, ranked_points


class Advice(NamedTuple):
    """Meaning of a kind of finding, and its remedy."""

    seriousness: int  # 0 is the most serious
    what: str
    remedy: str
    is_measurement: bool = True  # whether a further measurement is the remedy


class Limit(NamedTuple):
    """One limit of the results."""

    advice: Advice
    detail: str


METER = "Measure at the node ('jpwr --methods ipmi' or 'cray') or in the supply line ('--meter FILE')"
LEFT_OUT = Advice(0, "Records are left out.", "Ask for these results again, or repeat the runs", False)
TIE = Advice(2, "The first place is a tie.", "Repeat the best points, with more runs of each")
FAILED = Advice(
    3, "Runs failed.", "Read job.err in the point's folder; 'caraml wait --retry-failed' repeats them", False
)
NO_MEMORY = Advice(5, "Points do not fit into memory.", "Use a smaller micro batch size or more devices", False)
SIZE = Advice(3, "The size that would be bought was not measured.", "Measure on as many devices as would be bought")
KINDS = Advice(4, "Energy is measured at different places.", f"{METER} on all systems")
NEIGHBOURS = Advice(6, "Points differ from what their neighbours predict.", "Repeat these points")
# The advice by a word of the sentence that states the finding; the first that fits.
UNDECIDED = tuple(
    (pattern, Advice(1, "A requirement is undecided.", remedy, pattern != "missing"))
    for pattern, remedy in (
        ("accuracy", f"{METER}, or ask the vendor for the sensor's accuracy"),
        ("one run", "Run this point three times"),
        ("missing", "Ask for the missing runs, or repeat them"),
        ("alone", "Run this workload on more devices"),
        ("no run", "Run this workload at this point"),
        ("energy", METER),
        ("", "Repeat the runs of this point"),
    )
)
DEVIATIONS = tuple(
    (pattern, Advice(seriousness, what, remedy))
    for pattern, seriousness, what, remedy in (
        ("smaller", 1, "Runs are of a smaller workload.", "Run the workload in full: these runs only try the suite"),
        ("estimate", 4, "Energy is estimated from load, and not measured.", METER),
        ("accuracy", 6, "The accuracy of the sensor is not the vendor's figure.", f"Ask the vendor. {METER}"),
        ("idle", 7, "The idle power is unknown, or near that under load.", "Leave the devices idle before a job"),
        ("kinds", 4, "The runs of a point measure energy at different places.", f"{METER} in all runs"),
        ("^energy", 4, "Energy breaks a rule, and is not ranked.", "Repeat the run after a look at its sensor's rules"),
        (r"\bruns?, \d+ wanted", 5, "Repeats are too few for an interval.", "Run each point three times"),
        ("failed", 7, "Some runs of a point failed.", "Repeat the point"),
        ("clock|throttl", 6, "Clocks may have been held back.", "Check cooling and power limit; repeat the run"),
        ("window", 5, "The measured window is too short.", "Measure more steps"),
        ("trend|shift|outlier|stead", 6, "Step times are not steady.", "Measure more steps, with the node to itself"),
        ("loss", 5, "The loss rises.", "Check data and learning rate; repeat the run"),
        ("code", 7, "The code is not one known version.", "Commit all changes, and repeat the runs"),
        ("jobs|shared|exclusive", 7, "Other jobs may have used the node.", "Request the node for this job alone"),
        ("", 7, "A run deviates from the rules.", "Repeat the run; the quality of the measurements has the rules"),
    )
)


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
        found += [Limit(KINDS, f"{title}: {words}") for words in energies_apart(results)]
    every = [one for _, results in workloads for one in results]
    found += [Limit(advice_on(one.words, DEVIATIONS), str(one)) for one in deviations_once(every)]
    found += [Limit(NEIGHBOURS, words) for words in disturbed]
    return sorted(found, key=lambda one: one.advice.seriousness)


def measure_next(found: Sequence[Limit]) -> str:
    """Return the most useful further measurement; empty where nothing limits the results."""
    return next((f"{one.advice.remedy} ({one.detail.rstrip('.')})." for one in found if one.advice.is_measurement), "")


def advice_on(words: str, known: Sequence[tuple[str, Advice]]) -> Advice:
    """Return what a finding means, and what to do about it."""
    return next(advice for pattern, advice in known if re.search(pattern, words))


def _left_out(skipped: Sequence[Skipped]) -> Iterator[Limit]:
    counted = [one for one in skipped if one.systems is not None]
    for systems, mine in grouped(counted, lambda one: ", ".join(one.systems or ()) or "any system").items():
        yield Limit(LEFT_OUT, f"{systems}: {'; '.join(alike(mine))}")


def _of_records(records: Sequence[Record]) -> Iterator[Limit]:
    for one in failures_once(records):
        yield Limit(NO_MEMORY if one.words.startswith("out of memory") else FAILED, str(one))


def _of_decision(decision: Decision) -> Iterator[Limit]:
    open_ones = [one for one in decision.verdicts if one.outcome is Outcome.UNDECIDED]
    for (system, reason), mine in grouped(open_ones, lambda one: (one.system, one.reason)).items():
        items = "; ".join(str(one.item) for one in mine)
        yield Limit(advice_on(reason, UNDECIDED), f"{system}, {items}: {reason}")
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
