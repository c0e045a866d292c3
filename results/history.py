"""Changes of a machine over time: the last runs of each point against its first ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from record.values import count, epoch_s, grouped
from results.find.records import Record
from results.points.estimate import Outcome, judge
from results.points.facts import as_key, choices_of, facts_of, point_of
from results.verdicts.compare import METRICS, compare

FEWEST = 2  # runs on each side: one has no interval


class Change(NamedTuple):
    """Change of one quantity of a point; FAILED if its whole interval is worse than the threshold."""

    outcome: Outcome
    text: str  # a line, and one for what else changed, or why it cannot be decided


def created_s(run: Record) -> float:
    """Return the time at which a run was created, in seconds since 1970; NaN if it is not known."""
    moment_s = epoch_s(run.provenance.created)
    return math.nan if moment_s is None else moment_s


def series_of(records: Iterable[Record]) -> list[list[Record]]:
    """Return the runs of each system, point, options and set limits in order of time, without those of no time."""
    timed = (record for record in records if math.isfinite(created_s(record)))
    return list(grouped(sorted(timed, key=created_s), _series).values())


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
        good = [run for run in runs if run.is_good]
        if not good:
            continue
        first = [run for run in good if created_s(run) >= since_s][:number]
        last = [run for run in good if run not in first][-number:]
        failed = sum(created_s(run) > created_s(good[-1]) for run in runs)
        found += _changes(good[0], first, last, failed, threshold)
    return found


def _changes(
    any_run: Record, first: Sequence[Record], last: Sequence[Record], failed: int, threshold: float
) -> list[Change]:
    reasons = [f"its last {count(failed, 'run')} failed"] if failed else []
    place = ", ".join([any_run.system, str(point_of(any_run)), *choices_of(any_run)])
    if min(len(first), len(last)) < FEWEST:
        reasons.append(f"{len(first)} first and {count(len(last), 'last run')}, at least {FEWEST} of each are needed")
        words = f"{place}, {METRICS[0][0]}: {Outcome.UNDECIDED.value}"
        return [Change(Outcome.UNDECIDED, "\n  ".join([words, *reasons]))]
    compared = compare(first, last)
    [line] = compared.lines
    ends = last[0], last[-1], first[0], first[-1]
    days = ", {} to {} over {} to {}".format(*(str(run.provenance.created)[:10] for run in ends))
    remarks = [*reasons, *line.remarks, *compared.machines]
    found = []
    for (title, _), ratio in zip(METRICS, line.ratios, strict=True):
        if ratio is not None and ratio.interval:
            outcome = judge(lambda end: end >= 1 - threshold, ratio.interval)
            outcome = Outcome.UNDECIDED if outcome is Outcome.PASSED and failed else outcome
            words = f"{place}, {title}: {outcome.value} {ratio.text} times{days}"
            found.append(Change(outcome, "\n  ".join([words, *remarks])))
    return found
