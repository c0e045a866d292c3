"""Assessment of the results against the requirements: who is first, why, and what would change that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from record.values import grouped
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
    changes: list[tuple[str, str]]  # of each other system, what would make it tie with the first

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
        """Which requirements of the first are undecided, and why other systems are not ranked."""
        ranked, first = self.ranked, self.ranked.scores[0]
        left = [verdict for verdict in self.of_system(first.system) if verdict.outcome is not Outcome.PASSED]
        undecided = grouped(left if first.value is not None else [], lambda verdict: verdict.reason)
        return [
            *(
                f"Undecided for {first.system} ({reason}): {'; '.join(str(verdict.item) for verdict in verdicts)}."
                for reason, verdicts in undecided.items()
            ),
            *not_ranked(ranked),
        ]


def decide(
    results: Sequence[PointResults],
    requirements: Requirements,
    costs: Costs | None,
    skipped: Sequence[Skipped] = (),
    pledge: Pledge | None = None,
) -> Decision:
    """Return verdicts and scores; raises RecordError where the requirements or the pledge do not fit the results."""
    tender = Tender(results, requirements, pledge, skipped)
    decision = Decision(tender, ranking_of(results, tender.requirements, costs, tender.must), [])
    return decision._replace(changes=list(_changes(decision.ranked, decision.failed)))


def _changes(whole: Ranked, failed: set[str]) -> Iterator[tuple[str, str]]:
    """Yield which weight and which discount would make each other system tie with the first, if it may be first."""
    others = [row.system for row in whole.scores if row.value is not None][1:]
    behind = [system for system in others if system not in failed and system not in whole.tied]
    for system in behind[:NEAREST]:
        if words := [*filter(None, (_weights(whole, system), _discount(whole, system)))]:
            yield system, "; ".join(words)


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
