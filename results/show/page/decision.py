"""Assessment of the results against the requirements: who is first, why, and what would change that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from results.find.records import Skipped
from results.points.repeats import PointResults
from results.show.words import headline, met_words, not_ranked
from results.verdicts.accept import Verdict
from results.verdicts.cost import Costs
from results.verdicts.outcome import Outcome
from results.verdicts.requirements import Requirements
from results.verdicts.score import NEAREST, Ranked, ranking_of
from results.verdicts.tender.award import Tender
from results.verdicts.tender.pledge import Pledge

NEAR = 20.0  # largest factor on a weight or price that is reported


class Decision(NamedTuple):
    """Assessment of the results against the requirements."""

    tender: Tender
    ranked: Ranked

    @property
    def failed(self) -> set[str]:
        """Systems that fail a requirement."""
        return {verdict.system for verdict in self.tender.must if verdict.outcome is Outcome.FAILED}

    def of_system(self, system: str) -> list[Verdict]:
        """Return the verdicts on one system."""
        return [verdict for verdict in self.tender.must if verdict.system == system]

    @property
    def sentence(self) -> str:
        """Which system is first, by how much, and how many requirements it meets."""
        ranked, first = self.ranked, self.ranked.scores[0]
        met = met_words(self.of_system(first.system)) if first.value is not None else ""
        subject = first.system if ranked.tied else "It"
        return headline(ranked) + (f" {subject} {met}." if met else "")

    @property
    def reasons(self) -> list[str]:
        """Why systems are not ranked."""
        return not_ranked(self.ranked)

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Systems that are behind, each with the weight and the discount that would make it tie with the first."""
        whole = self.ranked
        others = [row.system for row in whole.scores if row.value is not None][1:]
        behind = [system for system in others if system not in whole.tied][:NEAREST]
        changes = ((one, "; ".join(filter(None, (_weights(whole, one), _discount(whole, one))))) for one in behind)
        return [(system, words) for system, words in changes if words]


def decide(
    results: Sequence[PointResults],
    requirements: Requirements,
    costs: Costs | None,
    skipped: Sequence[Skipped] = (),
    pledge: Pledge | None = None,
) -> Decision:
    """Return verdicts and scores; raises RecordError where the requirements or the pledge do not fit the results."""
    tender = Tender(results, requirements, pledge, skipped)
    return Decision(tender, ranking_of(results, tender.requirements, costs, tender.must))


def _weights(ranked: Ranked, system: str) -> str:
    if len(ranked.scores[0].speeds) < 2:
        return ""
    turns = [turn for turn in ranked.turns if turn.system == system and not turn.what.startswith("price")]
    near = [f"{turn.what} times {turn.factor:.3g}" for turn in turns if 1 / NEAR <= turn.factor <= NEAR]
    if near:
        return " or ".join(near)
    return f"no weight by a factor of up to {NEAR:g}" if turns else "no weight: it is behind in each workload"


def _discount(whole: Ranked, other: str) -> str:
    """Return the discount with which another system is no longer behind; empty if money does not decide the ranking."""
    if not whole.by_money:
        return ""
    price = next((turn for turn in whole.turns if (turn.system, turn.what) == (other, f"price of {other}")), None)
    if price:
        return f"discount of {_rounded_up(100 * (1 - price.factor))} %"
    limit = next(row.limit for row in whole.scores if row.system == other)
    return f"no discount is enough{f', as {limit} limits its size' if limit not in ('', 'money') else ''}"


def _rounded_up(percent: float) -> str:
    """Return a discount with one decimal that is enough: rounded to the nearest, it may be too low."""
    return f"{math.ceil(10 * percent - 1e-6) / 10:.1f}"
