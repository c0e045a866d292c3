"""Assessment of a tender: requirements, pledge, and the points of the score as pledged and as demonstrated."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from record.values import rounded
from results.find.records import Record, Skipped
from results.points.estimate import Interval
from results.points.repeats import PointResults
from results.verdicts.accept import Verdict, accept, left_out, missing_runs
from results.verdicts.outcome import Outcome, judge
from results.verdicts.requirements import Requirements, Score
from results.verdicts.score import ranking_of
from results.verdicts.tender.pledge import Pledge, check_pledge


class Award(NamedTuple):
    """Score of one system by a formula with a minimum."""

    system: str
    score: Score
    value: float | None
    interval: Interval | None
    outcome: Outcome  # PASSED if the whole interval is at least the minimum
    reason: str = ""

    @property
    def points(self) -> float | None:
        """The points of the score: the points at the minimum x score / minimum."""
        minimum, points = self.score.minimum, self.score.points
        return points * self.value / minimum if points and minimum and self.value is not None else None

    def as_data(self) -> dict[str, Any]:
        """Return the score for JSON."""
        low, high = self.interval or (None, None)
        found = {"system": self.system, "value": self.value, "low": low, "high": high, "points": self.points}
        return found | {"minimum": self.score.minimum, "outcome": self.outcome.value, "reason": self.reason}

    def __str__(self) -> str:
        half = self.interval.half if self.interval else None
        words = rounded(self.value, half) or "none"
        if self.interval:
            words += f" ({' to '.join(rounded(end, half) for end in self.interval)})"
        if self.points is not None:
            words += f" = {rounded(self.points)} points"
        words += f"; at least {self.score.minimum:g}: {self.outcome.value}"
        return f"score of {self.system}: {words}" + (f" ({self.reason})" if self.reason else "")


class Tender(NamedTuple):
    """Assessment of results against requirements, and against a pledge if there is one."""

    requirements: Requirements  # with the number of devices of the pledge's machine
    must: list[Verdict]  # on all systems
    pledge: Pledge | None
    pledged: list[Verdict]
    awards: list[Award]
    left_out: dict[Record, str]  # a sentence on each run that does not count

    @property
    def judged(self) -> list[Verdict]:
        """Verdicts on the requirements: with a pledge those on its system, without one on all."""
        return [one for one in self.must if not self.pledge or one.system == self.pledge.system]

    @property
    def outcomes(self) -> list[Outcome]:
        """Outcomes that decide the exit code."""
        return [*(one.outcome for one in [*self.judged, *self.pledged]), *(one.outcome for one in self.awards)]

    @property
    def without_figure(self) -> list[str]:
        """Sentences on the workloads that the pledge has no figure for."""
        pledged = {item.of for item in self.pledge.items} if self.pledge else set(self.requirements.workloads)
        without = [name for name in self.requirements.workloads if name not in pledged]
        return [f"the pledge has no figure for the workload {name}: ask the vendor for one" for name in without]


def judge_tender(
    results: Sequence[PointResults],
    requirements: Requirements,
    pledge: Pledge | None = None,
    skipped: Sequence[Skipped] = (),
) -> Tender:
    """Judge results; raises RecordError if they do not fit the requirements, or lack the pledge's system."""
    if pledge:
        requirements = replace(requirements, machine_devices=requirements.machine_devices or pledge.devices)
    must = accept(results, requirements, skipped) if requirements.must else []
    pledged = check_pledge(results, requirements, pledge, skipped) if pledge else []
    awards = _awards(results, requirements, pledge, must, skipped)
    return Tender(requirements, must, pledge, pledged, awards, left_out(results, requirements))


def _awards(
    results: Sequence[PointResults],
    requirements: Requirements,
    pledge: Pledge | None,
    must: Sequence[Verdict],
    skipped: Sequence[Skipped],
) -> list[Award]:
    """Return the score of each system, or of the pledge's alone; empty unless the formula has a minimum."""
    score, mine = requirements.score, [one for one in results if not pledge or one.system == pledge.system]
    if not (mine and score and (minimum := score.minimum)):
        return []
    found = []
    for one in ranking_of(mine, replace(requirements, reference=""), None, must).scores:
        outcome, reason = Outcome.UNDECIDED, one.why_not or "one run gives no interval"
        if one.interval:
            outcome, reason = judge(partial(operator.le, minimum), one.interval), ""
        if outcome is not Outcome.FAILED and (missing := missing_runs(skipped, one.system)):
            outcome, reason = Outcome.UNDECIDED, str(missing)
        found.append(Award(one.system, score, one.value, one.interval, outcome, reason))
    return found
