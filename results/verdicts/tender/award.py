"""Assessment of a tender: requirements, pledge, and the points of the score as pledged and as demonstrated."""

from __future__ import annotations

import math
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
from results.verdicts.requirements import (
    LESS_IS_BETTER,
    SECONDS,
    TIMES,
    Item,
    Quantity,
    Requirements,
    Score,
    for_machine,
)
from results.verdicts.score import scores
from results.verdicts.tender.pledge import POINT, Pledge, check_pledge, speed_of

SPEEDS = ("throughput", "throughput_per_device", *TIMES)


class Award(NamedTuple):
    """Score of one system by a formula with a minimum."""

    system: str
    score: Score
    value: float | None
    interval: Interval | None
    pledged: float | None  # None without a pledge, or if the pledge lacks a term
    outcome: Outcome  # PASSED if the whole interval is at least the minimum
    reason: str = ""

    def points(self, value: float | None) -> float | None:
        """Return the points of a value of the score: the points at the minimum x score / minimum."""
        minimum, points = self.score.minimum, self.score.points
        return points * value / minimum if points and minimum and value is not None else None

    def as_data(self) -> dict[str, Any]:
        """Return the score for JSON."""
        low, high = self.interval or (None, None)
        found = {"system": self.system, "value": self.value, "low": low, "high": high, "pledged": self.pledged}
        points = {"points": self.points(self.value), "pledged_points": self.points(self.pledged)}
        outcome = {"minimum": self.score.minimum, "outcome": self.outcome.value, "reason": self.reason}
        return found | points | outcome

    def __str__(self) -> str:
        half = self.interval.half if self.interval else None
        ends = f" ({' to '.join(rounded(end, half) for end in self.interval)})" if self.interval else ""
        found = f"{rounded(self.value, half)}{ends}{self._points(self.value)}" if self.value is not None else "none"
        pledged = f", pledged {rounded(self.pledged)}{self._points(self.pledged)}" if self.pledged is not None else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"score of {self.system}: {found}{pledged}; at least {self.score.minimum:g}: {self.outcome.value}{why}"

    def _points(self, value: float | None) -> str:
        points = self.points(value)
        return "" if points is None else f" = {rounded(points)} points"


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
        """Sentences on the workloads that the pledge has no figure for, and on those that decide nothing."""
        wanted, score = self.requirements, self.requirements.score
        pledged = {item.of for item in self.pledge.items} if self.pledge else set()
        decide = pledged | {one.of for one in (*wanted.must, *(score.terms.values() if score else ()))}
        if not score:
            decide |= {name for name, one in wanted.workloads.items() if one.weight}
        not_pledged = [name for name in wanted.workloads if self.pledge and name not in pledged]
        without = [name for name in wanted.workloads if name not in decide]
        return [
            *(f"the pledge has no figure for the workload {name}: ask the vendor for one" for name in not_pledged),
            *(
                f"the workload {name} has no requirement, no part of the score and no pledged figure: add one"
                for name in without
            ),
        ]


def judge_tender(
    results: Sequence[PointResults],
    requirements: Requirements,
    pledge: Pledge | None = None,
    skipped: Sequence[Skipped] = (),
) -> Tender:
    """Judge results; raises RecordError if they do not fit the requirements, or lack the pledge's system."""
    if pledge:
        requirements = for_machine(requirements, pledge.devices)
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
    pledged = _pledged_score(score, pledge) if pledge else None
    found = []
    for one in scores(mine, replace(requirements, reference=""), None, must)[0].scores:
        outcome, reason = Outcome.UNDECIDED, one.why_not or "one run gives no interval"
        if one.interval:
            outcome, reason = judge(partial(operator.le, minimum), one.interval), ""
        if outcome is not Outcome.FAILED and (missing := missing_runs(skipped, one.system)):
            outcome, reason = Outcome.UNDECIDED, str(missing)
        found.append(Award(one.system, score, one.value, one.interval, pledged, outcome, reason))
    return found


def _pledged_score(score: Score, pledge: Pledge) -> float | None:
    values = {name: _pledged(quantity, pledge) for name, quantity in score.terms.items()}
    known = {name: value for name, value in values.items() if value is not None}
    value = score.value(known) if len(known) == len(values) else math.nan
    return None if math.isnan(value) else value


def _pledged(quantity: Quantity, pledge: Pledge) -> float | None:
    """Return the best pledged value of a term."""
    best = min if quantity.what in (*TIMES, *LESS_IS_BETTER) else max
    items = [item for item in pledge.items if item.of == quantity.of]
    items = [item for item in items if all(getattr(quantity, name) in (None, getattr(item, name)) for name in POINT)]
    return best((value for item in items if (value := _value(item, quantity)) is not None), default=None)


def _value(item: Item, quantity: Quantity) -> float | None:
    """Return a pledged number as a term has it; speeds and times follow from each other."""
    speed, devices = speed_of(item), item.devices or 1
    if speed is None or quantity.what not in SPEEDS:
        return float(item.at_least or item.at_most or math.nan) if item.what == quantity.what else None
    time = (quantity.work or math.nan) / speed / SECONDS[quantity.unit]
    machine_time = time * devices / (quantity.machine_devices or math.nan)
    return dict(zip(SPEEDS, (speed, speed / devices, time, machine_time), strict=True))[quantity.what]
