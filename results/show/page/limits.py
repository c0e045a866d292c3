"""Limits of the results, the most serious first, each with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from results.points.repeats import PointResults
from results.record.records import Record, Skipped
from results.record.values import PER_DEVICE, grouped
from results.show.page.answer import Decision
from results.show.tables.decision import scaled_words
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
    """One limit of the results, with each of its cases."""

    advice: Advice
    details: list[str]


METER = "Measure at the node ('jpwr --methods ipmi' or 'cray') or in the supply line ('--meter FILE')"
LEFT_OUT = Advice(0, "Records are left out.", "Ask for these results again, or repeat the runs", False)
TIE = Advice(2, "The first place is a tie.", "Repeat the best points, with more runs of each")
FAILED = Advice(
    3, "Runs failed.", "Read job.err in the point's folder; 'caraml wait --retry-failed' repeats them", False
)
NO_MEMORY = Advice(5, "Points do not fit into memory.", "Use a smaller micro batch size or more devices", False)
BOUGHT = "Measure on as many devices as would be bought"
SIZE = Advice(1, "The size that would be bought was not measured.", BOUGHT)
SIZE_OF_OTHERS = Advice(3, "Of systems that are not first, the size that would be bought was not measured.", BOUGHT)
BETWEEN = Advice(5, "The size that would be bought lies between measured ones.", BOUGHT)
NO_SCORE = Advice(3, "Systems have no score.", "Measure or state what is missing", False)
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
        ("estimate", 4, "Energy is estimated from load, not measured.", METER),
        ("accuracy", 6, "The accuracy of the sensor is not the vendor's figure.", f"Ask the vendor. {METER}"),
        ("idle", 7, "The idle power is unknown, or near that under load.", "Leave the devices idle before a job"),
        ("kinds", 4, "The runs of a point measure energy at different places.", f"{METER} in all runs"),
        (
            "^energy",
            4,
            "Energy breaks a rule, and is not ranked.",
            "Check its sensor, then repeat the run",
        ),
        (r"\bruns?, \d+ wanted", 5, "Repeats are too few for an interval.", "Run each point three times"),
        ("failed", 7, "Some runs of a point failed.", "Repeat the point"),
        ("clock|throttl", 6, "Clocks may have been held back.", "Check cooling and power limit; repeat the run"),
        ("window", 5, "The measured window is too short.", "Measure more steps"),
        ("trend|shift|outlier|stead", 6, "Step times are not steady.", "Measure more steps on an exclusive node"),
        ("loss", 5, "The loss rises.", "Check data and learning rate; repeat the run"),
        ("code", 7, "The code is not one known version.", "Commit all changes, and repeat the runs"),
        ("jobs|shared|exclusive", 7, "Other jobs may have used the node.", "Request the node for this job alone"),
        ("", 7, "A run deviates from the rules.", "Repeat the run; the section on quality lists the rules"),
    )
)


def limits(
    records: Sequence[Record],
    skipped: Sequence[Skipped],
    workloads: Sequence[tuple[str, Sequence[PointResults]]],
    disturbed: Sequence[str],
    decision: Decision | None,
) -> list[Limit]:
    """Return all limits of the results, each once, the most serious first."""
    found = [*_left_out(skipped), *_of_records(records)]
    found += _of_decision(decision) if decision else []
    for title, results in workloads:
        found += [] if decision else _ties(title, results)
        found += [(KINDS, f"{title}: {words}") for words in energies_apart(results)]
    every = [one for _, results in workloads for one in results]
    found += [(advice_on(one.words, DEVIATIONS), str(one)) for one in deviations_once(every)]
    found += [(NEIGHBOURS, words) for words in disturbed]
    merged = [
        Limit(advice, [detail.rstrip(".") for _, detail in mine])
        for advice, mine in grouped(found, lambda one: one[0]).items()
    ]
    return sorted(merged, key=lambda one: one.advice.seriousness)


def measure_next(found: Sequence[Limit]) -> str:
    """Return the measurement that removes the most serious limit; empty where no measurement helps."""
    one = next((one for one in found if one.advice.is_measurement), None)
    return f"{one.advice.remedy} ({one.details[0]})." if one else ""


def advice_on(words: str, known: Sequence[tuple[str, Advice]]) -> Advice:
    """Return what a finding means, and what to do about it."""
    return next(advice for pattern, advice in known if re.search(pattern, words))


def _left_out(skipped: Sequence[Skipped]) -> Iterator[tuple[Advice, str]]:
    counted = [one for one in skipped if one.systems is not None]
    for systems, mine in grouped(counted, lambda one: ", ".join(one.systems or ()) or "any system").items():
        yield LEFT_OUT, f"{systems}: {'; '.join(alike(mine))}"


def _of_records(records: Sequence[Record]) -> Iterator[tuple[Advice, str]]:
    for one in failures_once(records):
        yield NO_MEMORY if one.words.startswith("out of memory") else FAILED, str(one)


def _of_decision(decision: Decision) -> Iterator[tuple[Advice, str]]:
    yield from _of_sizes(decision)
    yield from _undecided(decision)
    ranked = decision.rankings[0][0]
    if ranked.tied:
        names = [ranked.scores[0].system, *ranked.tied]
        yield TIE, f"{', '.join(names)} {ranked.title}"
    for words in decision.without_score:
        yield NO_SCORE, words


def _of_sizes(decision: Decision) -> Iterator[tuple[Advice, str]]:
    ranked = decision.rankings[0][0]
    firsts = {ranked.scores[0].system, *ranked.tied}
    beyond = [one for one in decision.scaled if max(one.measured) < one.devices]
    advice = SIZE if any(one.system in firsts for one in beyond) else SIZE_OF_OTHERS
    for words in scaled_words(beyond):
        yield advice, words
    for words in scaled_words([one for one in decision.scaled if one not in beyond]):
        yield BETWEEN, words


def _undecided(decision: Decision) -> Iterator[tuple[Advice, str]]:
    """Yield each undecided requirement once for each remedy, without systems that fail another requirement."""
    open_ones = [one for one in decision.verdicts if one.outcome is Outcome.UNDECIDED]
    open_ones = [one for one in open_ones if one.system not in decision.failed]
    by_item = grouped(open_ones, lambda one: (advice_on(one.reason, UNDECIDED), str(one.item)))
    found = [
        (advice, item, ", ".join(one.system for one in mine), tuple(dict.fromkeys(one.reason for one in mine)))
        for (advice, item), mine in by_item.items()
    ]
    for (advice, systems, reasons), alike_ones in grouped(found, lambda one: (one[0], *one[2:])).items():
        why = f": {reasons[0]}" if len(reasons) == 1 else ""
        yield advice, f"{systems}, {'; '.join(item for _, item, *_ in alike_ones)}{why}"


def _ties(title: str, results: Sequence[PointResults]) -> Iterator[tuple[Advice, str]]:
    for precision, mine in grouped(ranked_points(results), lambda one: one.precision).items():
        ranking = rank(mine, PER_DEVICE)
        if ranking and ranking.tied:
            names = ", ".join(one.system for one in (ranking.first, *ranking.tied))
            yield TIE, f"{title} in {precision}: {names}"
