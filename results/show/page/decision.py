"""Assessment of the results against the requirements: who is first, why, and what would change that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from record.values import grouped
from results.find.records import Skipped
from results.points.repeats import PointResults
from results.show.tables.doubts import alike
from results.show.words import headline, met_words
from results.verdicts.accept import Verdict
from results.verdicts.cost import Cheapest, Costs, cheapest, crossings, tied_with_cheapest
from results.verdicts.outcome import Outcome
from results.verdicts.requirements import Requirements
from results.verdicts.score import NEAREST, Ranked, scores
from results.verdicts.tender.award import Tender, judge_tender
from results.verdicts.tender.pledge import Pledge

NEAR = 20.0  # largest factor on a weight or price that is reported


class Decision(NamedTuple):
    """Assessment of the results against the requirements."""

    tender: Tender
    rankings: list[Ranked]  # the most important first
    missing: list[str]  # a sentence on each system whose runs are missing
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
        ranked = self.rankings[0]
        first = ranked.scores[0]
        met = met_words(self.of_system(first.system)) if first.value is not None else ""
        subject = first.system if ranked.tied else "It"
        return headline(ranked) + (f" {subject} {met}." if met else "")

    @property
    def reasons(self) -> list[str]:
        """Which requirements of the first are undecided, and why other systems are not ranked."""
        ranked = self.rankings[0]
        first = ranked.scores[0]
        left = [verdict for verdict in self.of_system(first.system) if verdict.outcome is not Outcome.PASSED]
        undecided = grouped(left if first.value is not None else [], lambda verdict: verdict.reason)
        without = grouped((row for row in ranked.scores if row.value is None), lambda row: row.why_not)
        return [
            *(
                f"Undecided for {first.system} ({reason}): {'; '.join(str(verdict.item) for verdict in verdicts)}."
                for reason, verdicts in undecided.items()
            ),
            *(f"Not ranked: {', '.join(row.system for row in rows)}, as {why}." for why, rows in without.items()),
        ]


def decide(
    results: Sequence[PointResults],
    requirements: Requirements,
    costs: Costs | None,
    skipped: Sequence[Skipped] = (),
    pledge: Pledge | None = None,
) -> Decision:
    """Return verdicts and scores; raises RecordError where the requirements or the pledge do not fit the results."""
    tender = judge_tender(results, requirements, pledge, skipped)
    rankings = scores(results, tender.requirements, costs, tender.must)
    decision = Decision(tender, rankings, list(_missing(results, skipped)), [])
    return decision._replace(changes=list(_changes(rankings[0], decision.failed, results, costs)))


def _missing(results: Sequence[PointResults], skipped: Sequence[Skipped]) -> Iterator[str]:
    for system in sorted({point.system for point in results}):
        if words := alike(str(file) for file in skipped if file.may_be_of(system)):
            yield f"{system}: runs are missing: {'; '.join(words)}."


def _changes(
    whole: Ranked, failed: set[str], results: Sequence[PointResults], costs: Costs | None
) -> Iterator[tuple[str, str]]:
    """Yield which weight and which discount would make each other system tie with the first, if it may be first."""
    others = [row.system for row in whole.scores if row.value is not None][1:]
    behind = [system for system in others if system not in failed and system not in whole.tied]
    for system in behind[:NEAREST]:
        words = [_weights(whole, system), _discount(whole, system, results, costs)]
        yield system, "; ".join(filter(None, words))


def _weights(ranked: Ranked, system: str) -> str:
    if len(ranked.scores[0].speeds) < 2:
        return ""
    turns = [turn for turn in ranked.turns if turn.system == system and not turn.what.startswith("price")]
    near = [f"{turn.what} times {turn.factor:.3g}" for turn in turns if 1 / NEAR <= turn.factor <= NEAR]
    if near:
        return " or ".join(near)
    return f"no weight by a factor of up to {NEAR:g}" if turns else "no weight: it is behind in each workload"


def _discount(whole: Ranked, other: str, results: Sequence[PointResults], costs: Costs | None) -> str:
    """Return the discount with which another system is no longer behind in a ranking that money decides.

    Where it does not, return the discount with which it costs as much for the work.
    """
    first = whole.scores[0].system
    if whole.by_money:
        price = next((turn for turn in whole.turns if (turn.system, turn.what) == (other, f"price of {other}")), None)
        if price:
            return f"discount of {_rounded_up(100 * (1 - price.factor))} %"
        limit = next(row.limit for row in whole.scores if row.system == other)
        return f"no discount is enough{f', as {limit} limits its size' if limit not in ('', 'money') else ''}"
    if costs is None:
        return "discount unknown without prices (--prices FILE)"
    found = []
    for points in grouped(results, lambda point: point.point.benchmark).values():
        for kind, systems in cheapest(points, costs).items():
            if first in systems and other in systems:
                pair = {name: systems[name] for name in (first, other)}
                found.append(f"{_of_cost(pair, first, other, costs)} for {points[0].point.model} in {kind}")
    return f"discount to cost as much: {'; '.join(found)}" if found else ""


def _rounded_up(percent: float) -> str:
    """Return a discount with one decimal that is enough: rounded to the nearest, it may be too low."""
    return f"{math.ceil(10 * percent - 1e-6) / 10:.1f}"


def _of_cost(pair: Cheapest, first: str, other: str, costs: Costs) -> str:
    if tied_with_cheapest(pair) != [first]:
        return "none, as it is not more expensive"
    price = next((crossing.price for crossing in crossings(pair, costs) if crossing.system == other), 0.0)
    now = costs.systems[other].price_per_device
    return f"{100 * (1 - price / now):.1f} %" if price > 0 else "none, as its electricity costs more"
