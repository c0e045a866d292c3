"""Judge series: whether something got worse than a threshold, what else changed there, and whether it is known."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from results.files.typed_files import read_file
from results.history.changes import FEWEST, SHORTEST, Fit, fit
from results.history.series import FOLLOWED, Series, changed_facts, states_of, time_d
from results.points.estimate import Estimate
from results.record.records import RecordError
from results.record.values import count
from results.verdicts.outcome import Outcome, judge

CHANGE, TOGETHER, DRIFT, TOTAL = "change", "changes together", "drift", "since acceptance"
SAME_D = 7.0  # a known change may begin so many days earlier or later: further runs can move its begin by one


@dataclass(frozen=True)
class Known:
    """Change that a user acknowledged: its first run and, where given, its system, quantity, and words of its point."""

    first_run: Annotated[str, "day, such as 2026-03-09"]
    system: str = ""
    point: Annotated[str, "words of its name"] = ""
    quantity: Annotated[str, {"enum": ["", *FOLLOWED]}] = ""
    note: str = ""

    def check(self, where: str) -> None:
        """Raise RecordError unless the day of the first run can be read."""
        if math.isnan(time_d(self.first_run)):
            raise RecordError(f"{where}: first_run is {self.first_run!r}, write it as 2026-03-09")

    def covers(self, series: Series, first_run_d: float) -> bool:
        """Return whether a change of a series is this one."""
        words = rf"(?<!\w){re.escape(self.point)}(?!\w)" if self.point else ""  # 2 devices, but not 12 devices
        is_there = self.system in ("", series.system) and re.search(words, series.name) is not None
        return (
            is_there and self.quantity in ("", series.quantity) and abs(time_d(self.first_run) - first_run_d) <= SAME_D
        )


@dataclass(frozen=True)
class KnownChanges:
    """Content of the file of acknowledged changes."""

    known: Annotated[tuple[Known, ...], {"title": "known change"}] = ()


class Change(NamedTuple):
    """Change, several of them or drift of a series, with the ratio of its values after and before, or over a year."""

    kind: str
    first_run: str  # day of the first run after the change; of a drift, the first run of the series
    ratio: Estimate
    causes: list[str]  # what else changed there
    outcome: Outcome
    is_known: bool

    @property
    def text(self) -> str:
        """Size with its interval, and what else changed, as text."""
        low, high = self.ratio.interval or (self.ratio.value, self.ratio.value)
        size = f"{_percent(self.ratio.value)} [{_percent(low)}, {_percent(high)}]"
        words = {
            CHANGE: f"from {self.first_run}; what else changed: {'; '.join(self.causes) or 'nothing in the records'}",
            TOGETHER: f"by the changes from {self.first_run} on together",
            DRIFT: f"a year, since {self.first_run}",
            TOTAL: f"by the drift and the changes since {self.first_run} together",
        }
        return f"{size} {words[self.kind]}"


class SeriesVerdict(NamedTuple):
    """Outcome of a series: FAILED if it got worse, UNDECIDED with the reasons if its runs cannot decide."""

    series: Series
    logs: list[float]  # logarithm of the level, or of the drift, at each observation; empty if there are too few
    findings: list[Change]
    outcome: Outcome
    reasons: list[str]

    @property
    def text(self) -> str:
        """Name and outcome with what counts for it, a line each."""
        new = [f"{one.outcome.value}: {one.text}" for one in self.findings if not one.is_known]
        return "\n  ".join([f"{self.series.name}: {self.outcome.value}", *new, *self.reasons])


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def read_known(path: Path) -> list[Known]:
    """Return the changes that a YAML file acknowledges; raises RecordError for a mistake in it."""
    return list(read_file(KnownChanges, path, "known changes").known)


def verdict_of(
    series: Series, threshold: float, since_d: float = -math.inf, known: Sequence[Known] = ()
) -> SeriesVerdict:
    """Judge the changes of a series since a day, and its drift over a year, by a relative threshold."""
    values = series.observations
    found = fit([one.time_d for one in values], [one.log for one in values], [one.variance for one in values])
    if found is None:
        reason = f"{count(len(values), 'day')} with good runs, {FEWEST} needed"
        return SeriesVerdict(series, [], [], Outcome.UNDECIDED, [*_failures(series), reason])

    def finding(kind: str, first: int, ratio: Estimate, causes: list[str]) -> Change:
        outcome = judge(lambda end: end >= 1 - threshold, ratio.interval) if ratio.interval else Outcome.UNDECIDED
        one = values[first]
        is_known = any(each.covers(series, math.floor(one.time_d)) for each in known)
        return Change(kind, one.date, ratio, causes, outcome, is_known)

    ends = [*(step.at for step in found.steps), len(values)]
    changes = [
        finding(CHANGE, step.at, step.ratio, _causes(series, begin, step.at, end))
        for begin, step, end in zip([0, *ends], found.steps, ends[1:], strict=False)
    ]
    counting = [number for number, step in enumerate(found.steps) if values[step.at].time_d >= since_d]
    findings = [changes[number] for number in counting]
    new = [number for number in counting if not changes[number].is_known]
    if not any(changes[number].outcome is Outcome.FAILED for number in new):
        # Several small changes may make the point slower than the threshold: the last level against each earlier one.
        sums = [finding(TOGETHER, ends[first], found.together(*new[at:]), []) for at, first in enumerate(new[:-1])]
        if failed := [one for one in sums if one.outcome is Outcome.FAILED]:
            findings.append(min(failed, key=lambda one: one.ratio.value))
    if found.drift is not None:
        findings.append(finding(DRIFT, 0, found.drift, []))
        # A drift that keeps the threshold each year may not keep it against the level at acceptance.
        first = next((number for number, one in enumerate(values) if one.time_d >= since_d), 0)
        accepted = [number for number, change in enumerate(changes) if change.is_known]
        total = finding(TOTAL, first, found.total(first, accepted), [])
        is_failed = any(one.outcome is Outcome.FAILED and not one.is_known for one in findings)
        findings += [total] if total.outcome is Outcome.FAILED and not is_failed else []
    reasons = _reasons(series, found, threshold)
    if values[-1].time_d < since_d:
        reasons.append("it has no good run since then")
    outcomes = {one.outcome for one in findings if not one.is_known} | {Outcome.UNDECIDED for _ in reasons}
    outcome = next((one for one in (Outcome.FAILED, Outcome.UNDECIDED) if one in outcomes), Outcome.PASSED)
    return SeriesVerdict(series, found.logs, findings, outcome, reasons)


def _causes(series: Series, begin: int, at: int, end: int) -> list[str]:
    """Return the facts that changed at a step, and the clocks and temperatures of the levels around it."""
    before, after = (states_of(series.observations[slice(*ends)]) for ends in ((begin, at), (at, end)))
    pairs = {name: (f"{before[name]:.0f}", f"{after[name]:.0f}") for name in before if name in after}
    states = [f"{name} {' → '.join(pair)}" for name, pair in pairs.items() if len(set(pair)) > 1]
    return [*changed_facts(series.observations[at - 1], series.observations[at]), *states]


def _reasons(series: Series, found: Fit, threshold: float) -> list[str]:
    """Return why the last runs of a series cannot decide, as sentences."""
    reasons = _failures(series)
    if found.resolution > threshold:
        scatter, least = 100 * found.scatter, 100 * found.resolution
        times, enough = math.ceil((found.resolution / threshold) ** 2), math.ceil(10 * least) / 10
        reasons.append(
            f"runs scatter by {scatter:.1f} %: {SHORTEST} of them show a change of {least:.1f} % at best; "
            f"run the point {times} times as often, or judge by --threshold {enough:g}"
        )
    for index in found.outliers:
        one = series.observations[index]
        ratio = math.exp(one.log - found.logs[index])
        if index > len(series.observations) - SHORTEST and ratio < 1 - threshold:
            reasons.append(f"{_percent(ratio)} on {one.date}, not confirmed: run the point again")
    return reasons


def _failures(series: Series) -> list[str]:
    return [f"its last {count(series.failed, 'run')} failed"] if series.failed else []


def verdict_data(verdict: SeriesVerdict) -> dict[str, Any]:
    """Return a verdict as data for JSON."""
    findings = [
        {**one._asdict(), "ratio": one.ratio.value, "interval": one.ratio.interval, "outcome": one.outcome.value}
        for one in verdict.findings
    ]
    return {**verdict.series.data, "outcome": verdict.outcome.value, "reasons": verdict.reasons, "findings": findings}
