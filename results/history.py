"""Changes of a machine over time: the last runs of each point against its first ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from record.values import count, epoch_s, grouped
from results.find.records import Record
from results.points.estimate import Estimate
from results.points.facts import Point, as_key, choices_of, facts_of, point_of
from results.verdicts.compare import METRICS, compare
from results.verdicts.outcome import Outcome, judge

FEWEST = 2  # runs on each side: one has no interval


class Change(NamedTuple):
    """Change of one quantity of a point; FAILED if its whole interval is worse than the threshold."""

    system: str
    point: Point
    variant: tuple[str, ...]
    quantity: str
    ratio: Estimate | None  # of the last runs over the first ones
    outcome: Outcome
    days: str  # of the runs that are compared
    remarks: list[str]  # what else changed, or why it cannot be decided

    @property
    def text(self) -> str:
        """The change as a line, with a line for each remark."""
        options = f", {', '.join(self.variant)}" if self.variant else ""
        size = f" {self.ratio.text} times" if self.ratio else ""
        line = f"{self.system}, {self.point}{options}, {self.quantity}: {self.outcome.value}{size}{self.days}"
        return "\n  ".join([line, *self.remarks])


class Timed(NamedTuple):
    """A run with the time of its creation, in seconds since 1970."""

    time_s: float
    record: Record


def series_of(records: Iterable[Record]) -> list[list[Timed]]:
    """Return the runs of each system, point, options and set limits in order of time, without those of no time."""
    known = ((epoch_s(record.provenance.created), record) for record in records)
    timed = [Timed(time_s, record) for time_s, record in known if time_s is not None]

    return list(grouped(sorted(timed, key=lambda run: run.time_s), lambda run: _series(run.record)).values())


def _series(record: Record) -> tuple[object, ...]:
    """Return what is equal for the runs of a series: limits that it set itself are among it."""
    facts = facts_of(record)
    is_set = any(channel.limits.limits_set_by for channel in record.sensor_channels)
    return *facts[:3], as_key(facts.work), as_key(facts.limits) if is_set else ()


def changes_of(records: Iterable[Record], number: int, since_s: float, threshold: float) -> list[Change]:
    """Compare the last runs of each point with its first ones since a time, at most `number` of each.

    threshold: a relative loss that counts as worse.
    """
    found = []
    for runs in series_of(records):
        good = [run for run in runs if run.record.is_good]
        if not good:
            continue
        first = [run for run in good if run.time_s >= since_s][:number]
        last = [run for run in good if run not in first][-number:]
        failed = sum(run.time_s > good[-1].time_s for run in runs)
        found += _changes(good[0].record, first, last, failed, threshold)
    return found


def _changes(
    any_run: Record, first: Sequence[Timed], last: Sequence[Timed], failed: int, threshold: float
) -> list[Change]:
    reasons = [f"its last {count(failed, 'run')} failed"] if failed else []
    place = any_run.system, point_of(any_run), choices_of(any_run)
    if min(len(first), len(last)) < FEWEST:
        reasons.append(f"{len(first)} first and {count(len(last), 'last run')}, at least {FEWEST} of each are needed")
        return [Change(*place, METRICS[0][0], None, Outcome.UNDECIDED, "", reasons)]
    sides = [[run.record for run in side] for side in (first, last)]
    compared = compare(*sides)
    [line] = compared.lines
    ends = last[0], last[-1], first[0], first[-1]
    days = ", {} to {} over {} to {}".format(*(str(run.record.provenance.created)[:10] for run in ends))
    remarks = [*reasons, *line.remarks, *compared.machines]
    found = []
    for (title, _), ratio in zip(METRICS, line.ratios, strict=True):
        if ratio is not None and ratio.interval:
            outcome = judge(lambda end: end >= 1 - threshold, ratio.interval)
            outcome = Outcome.UNDECIDED if outcome is Outcome.PASSED and failed else outcome
            found.append(Change(*place, title, ratio, outcome, days, remarks))
    return found
