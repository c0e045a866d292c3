"""Assessment of a tender: requirements, pledge, and the points of the score as pledged and as demonstrated."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from record.values import rounded
from results.find.records import Skipped
from results.points.estimate import Interval
from results.points.repeats import PointResults
from results.verdicts.accept import accept, left_out, missing_runs
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


class Tender:
    """Assessment of results against requirements, and against a pledge if there is one.

    Raises RecordError if the results do not fit the requirements, or lack the pledge's system.
    """

    def __init__(
        self,
        results: Sequence[PointResults],
        requirements: Requirements,
        pledge: Pledge | None = None,
        skipped: Sequence[Skipped] = (),
    ) -> None:
        if pledge:
            requirements = replace(requirements, machine_devices=requirements.machine_devices or pledge.devices)
        self.requirements, self.pledge = requirements, pledge
        self.must = accept(results, requirements, skipped) if requirements.must else []  # on all systems
        self.pledged = check_pledge(results, requirements, pledge, skipped) if pledge else []
        self.judged = [one for one in self.must if not pledge or one.system == pledge.system]
        self.left_out = left_out(results, requirements)  # a sentence on each run that does not count
        mine = [one for one in results if not pledge or one.system == pledge.system]
        self.awards = list(self._awards(mine, skipped))
        # those that decide the exit code
        self.outcomes = [one.outcome for one in (*self.judged, *self.pledged)] + [one.outcome for one in self.awards]

    @property
    def without_figure(self) -> list[str]:
        """Sentences on the workloads that the pledge has no figure for."""
        pledged = {item.of for item in self.pledge.items} if self.pledge else set(self.requirements.workloads)
        without = [name for name in self.requirements.workloads if name not in pledged]
        return [f"the pledge has no figure for the workload {name}: ask the vendor for one" for name in without]

    def _awards(self, results: Sequence[PointResults], skipped: Sequence[Skipped]) -> Iterator[Award]:
        """Yield the score of each system; none unless the formula has a minimum."""
        score = self.requirements.score
        if not (results and score and (minimum := score.minimum)):
            return
        for one in ranking_of(results, replace(self.requirements, reference=""), None, self.must).scores:
            outcome, reason = Outcome.UNDECIDED, one.why_not or "one run gives no interval"
            if one.interval:
                outcome, reason = judge(partial(operator.le, minimum), one.interval), ""
            if outcome is not Outcome.FAILED and (missing := missing_runs(skipped, one.system)):
                outcome, reason = Outcome.UNDECIDED, str(missing)
            yield Award(one.system, score, one.value, one.interval, outcome, reason)
