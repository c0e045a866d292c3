"""Requirements against results: each is passed, failed or undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from record.findings import Finding, finding, joined
from results.find.records import Record, Skipped
from results.points.repeats import PointResults
from results.verdicts.measures import Answer, answer, at, check_alike
from results.verdicts.outcome import Outcome, judge
from results.verdicts.requirements import Item, Requirements, Selection

USUAL_PRECISIONS = ("", "fp32", "tf32", "bf16", "fp16")


class Verdict(NamedTuple):
    """One requirement, pledged figure or score of one system."""

    item: Item
    system: str
    outcome: Outcome
    answer: Answer
    reasons: tuple[Finding, ...] = ()  # why it is not passed

    @property
    def reason(self) -> str:
        """The reasons as text."""
        return joined(self.reasons)


def accept(
    results: Sequence[PointResults], requirements: Requirements, skipped: Sequence[Skipped] = ()
) -> list[Verdict]:
    """Return the verdict on every requirement for every system of the results and of the skipped files.

    No requirement passes for a system if a skipped file may be a run of it.
    """
    check_alike(results, requirements.workloads)
    systems = dict.fromkeys(
        [*(one.system for one in results), *(system for one in skipped for system in one.systems or ())]
    )
    return [
        verdict_on(item, system, results, requirements, skipped) for system in systems for item in requirements.must
    ]


def verdict_on(
    item: Item,
    system: str,
    results: Sequence[PointResults],
    requirements: Requirements,
    skipped: Sequence[Skipped] = (),
) -> Verdict:
    """Return the verdict on one requirement for one system.

    No narrow precision passes unless the requirements name it, and nothing passes while runs are missing.
    """
    wanted, machine = requirements.workloads[item.of], requirements.machine_devices
    results = [one for one in results if one.system == system]
    mine = wanted.of(results)
    answered = answer(mine, item, machine) if mine else Answer(why_not=wanted.why_none(results))
    if answered.why_not and not any(one.good for one in at(mine, item)):
        answered = _without_broken(answered, at(results, item), wanted)
    verdict = judged(item, system, answered)
    precision = answered.best.precision if answered.best else ""
    is_named = wanted.precision or wanted.fixed.get("precision") or precision in USUAL_PRECISIONS
    if verdict.outcome is Outcome.PASSED and not is_named:
        usual = [point for point in mine if point.precision in USUAL_PRECISIONS]
        in_usual = judged(item, system, answer(usual, item, machine))
        why = finding("repeats_needed", why=f"in {precision}, and the requirements name no precision")
        undecided = verdict._replace(outcome=Outcome.UNDECIDED, reasons=(why,))
        verdict = in_usual if in_usual.outcome is Outcome.PASSED else undecided
    # A mark that the buyer fixed is that of each run that counts.
    doubts = tuple(doubt for doubt in verdict.answer.doubts if dict(doubt.values).get("option") not in wanted.fixed)
    verdict = verdict._replace(answer=verdict.answer._replace(doubts=doubts))
    return unless_missing(verdict, skipped)


def unless_missing(verdict: Verdict, skipped: Sequence[Skipped]) -> Verdict:
    """Return the verdict, which is undecided unless it failed, if a skipped file may be a run of its system."""
    missing = missing_runs(skipped, verdict.system)
    if not missing or verdict.outcome is Outcome.FAILED:
        return verdict
    return verdict._replace(outcome=Outcome.UNDECIDED, reasons=(*verdict.reasons, missing))


def _without_broken(answered: Answer, at_place: Sequence[PointResults], wanted: Selection) -> Answer:
    """Return an answer whose reason names the runs that do not count; it is a failure if each changed a fixed fact."""
    runs = [record for one in at_place if wanted.has(one) for record in (*one.good, *one.bad)]
    broken = list(filter(None, map(wanted.broken, runs)))
    if not broken:
        return answered
    reasons = tuple(finding("no_run", why=words) for words in dict.fromkeys(map("; ".join, broken)))
    is_failure = answered.is_failure or all(any(facts.values()) for facts in broken)
    return answered._replace(why_not=finding("runs_left_out", reasons=reasons), is_failure=is_failure)


def left_out(results: Sequence[PointResults], requirements: Requirements) -> dict[Record, str]:
    """Return a sentence on each run that breaks what is fixed for its workloads."""
    found, counting = {}, set()
    for name, wanted in requirements.workloads.items():
        for one in filter(wanted.has, results):
            for record in (*one.good, *one.bad):
                if words := "; ".join(wanted.broken(record)):
                    where = record.file.path or one.point.place
                    found[record] = f"{one.system}, {where}: does not count for {name}: {words}"
                else:
                    counting.add(record)
    return {record: words for record, words in found.items() if record not in counting}


def missing_runs(skipped: Sequence[Skipped], system: str) -> Finding | None:
    """Return a finding on skipped files that may be runs of a system; None without any."""
    missing = sum(one.may_be_of(system) for one in skipped)
    return finding("runs_missing", reasons=missing) if missing else None


def judged(item: Item, system: str, result: Answer) -> Verdict:
    """Return the verdict on one requirement, given the answer to it."""
    reason, interval = None, result.interval
    if result.why_not:
        outcome, reason = Outcome.FAILED if result.is_failure else Outcome.UNDECIDED, result.why_not
    elif result.is_exact:
        outcome = Outcome.PASSED if item.keeps(result.value) else Outcome.FAILED
    elif interval is None:
        outcome, reason = Outcome.UNDECIDED, finding("one_run")
    elif (outcome := judge(item.keeps, interval)) is Outcome.UNDECIDED:
        ends = interval._asdict()
        if math.isinf(interval.high):
            requests = min(result.best.values("metrics.measured_requests"), default=0.0) if result.best else 0.0
            reason = finding("p99_unbounded", requests=round(requests))
        elif result.by_sampling and judge(item.keeps, result.by_sampling) is Outcome.PASSED:
            reason = finding("not_without_accuracy", **ends)
        else:
            of = f" for the best of {result.points} points" if result.points > 1 else ""
            reason = finding("within_interval", **ends, of=of)
    return Verdict(item, system, outcome, result, (reason,) if reason else ())
