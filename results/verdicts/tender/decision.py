"""Assessment of results by requirements: verdicts, a vendor's pledge, the tender's score, and the ranking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from record.findings import finding
from results.find.records import Skipped
from results.points.estimate import Outcome
from results.points.repeats import PointResults
from results.verdicts.accept import Verdict, accept, judged, left_out, unless_missing
from results.verdicts.cost import Costs
from results.verdicts.measures import Answer
from results.verdicts.requirements import Item, Requirements
from results.verdicts.score import Ranked, ranking_of
from results.verdicts.tender.pledge import Pledge, check_pledge


class Decision:
    """Assessment of results against requirements, and against a pledge if there is one.

    Raises RecordError if the results do not fit the requirements, or lack the pledge's system.
    """

    def __init__(
        self,
        results: Sequence[PointResults],
        requirements: Requirements,
        costs: Costs | None = None,
        skipped: Sequence[Skipped] = (),
        pledge: Pledge | None = None,
    ) -> None:
        if pledge:
            requirements = replace(requirements, machine_devices=requirements.machine_devices or pledge.devices)
        self.requirements, self.pledge = requirements, pledge
        self._results, self._costs = results, costs
        self.must = accept(results, requirements, skipped)  # on all systems
        self.pledged = check_pledge(results, requirements, pledge, skipped) if pledge else []
        self.left_out = left_out(results, requirements)  # a sentence on each run that does not count
        mine = [point for point in results if not pledge or point.system == pledge.system]
        self.scores = list(self._scores(mine, skipped))  # by a formula with a minimum
        self.judged = [verdict for verdict in self.must if not pledge or verdict.system == pledge.system]
        # They decide the exit code.
        self.outcomes = [verdict.outcome for verdict in (*self.judged, *self.pledged, *self.scores)]

    @cached_property
    def ranked(self) -> Ranked:
        """The ranking of all systems; raises RecordError if the requirements ask for none of these results."""
        return ranking_of(self._results, self.requirements, self._costs, self.must)

    @property
    def failed(self) -> set[str]:
        """Systems that fail a requirement."""
        return {verdict.system for verdict in self.must if verdict.outcome is Outcome.FAILED}

    def of_system(self, system: str) -> list[Verdict]:
        """Return the verdicts on one system, on its score as well."""
        return [verdict for verdict in (*self.must, *self.scores) if verdict.system == system]

    @property
    def without_figure(self) -> list[str]:
        """Sentences on the workloads that the pledge has no figure for."""
        pledged = {item.of for item in self.pledge.items} if self.pledge else set(self.requirements.workloads)
        without = [name for name in self.requirements.workloads if name not in pledged]
        return [f"the pledge has no figure for the workload {name}: ask the vendor for one" for name in without]

    def _scores(self, results: Sequence[PointResults], skipped: Sequence[Skipped]) -> Iterator[Verdict]:
        """Yield the verdict on the score of each system; none unless the formula has a minimum."""
        score = self.requirements.score
        if not (results and score and (minimum := score.minimum)):
            return
        item = Item(of="", what="score", name=f"score at least {minimum:g}", at_least=minimum)
        for row in ranking_of(results, replace(self.requirements, reference=""), None, self.must).scores:
            award = score.points * row.value / minimum if score.points and row.value is not None else None
            why_not = finding("unclear", why=row.why_not) if row.why_not else None
            answer = Answer(row.value, row.interval, why_not=why_not, award=award)
            yield unless_missing(judged(item, row.system, answer), skipped)
