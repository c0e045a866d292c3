"""Comparison of two sets of results, and of a machine over time: ratios of throughput and of work per energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from record.values import THROUGHPUT, WORK, count, epoch_s, grouped
from results.find.records import Record, RecordError
from results.points.estimate import Estimate, Outcome, judge, product
from results.points.facts import LONGEST, UNKNOWN, Point, as_key, choices_of, facts_of, point_of, together
from results.points.repeats import PointResults, by_point, unsteady
from results.verdicts.quality import ESTIMATE, accuracy_text, grade, why_left_out, why_not_ranked

# Title and path of the values that are compared; for all of them more is better.
METRICS = (("throughput", THROUGHPUT), ("work per energy", WORK))
SIDES = ("base", "other")
OF_BOTH = ("smaller", "to_loss")  # that keep a point from rankings, and not two such points from a comparison
COMMIT_LETTERS = 12
FEWEST = 2  # runs on each side of a change over time: one has no interval


class Line(NamedTuple):
    """One point of both sides; a ratio is None if a side has no value, or the two are not comparable."""

    point: Point
    ratios: list[Estimate | None]
    remarks: list[str]


class Comparison(NamedTuple):
    """`other` over `base`."""

    lines: list[Line]
    only_base: list[Point]
    only_other: list[Point]
    failed: list[str]
    machines: list[str]  # differences of software, devices, nodes and environment between the good runs, as text

    def means(self) -> list[Estimate | None]:
        """Return the geometric mean of each metric's ratios over all points that have one; None without any."""
        means: list[Estimate | None] = []
        for index in range(len(METRICS)):
            ratios = [ratio for line in self.lines if (ratio := line.ratios[index])]
            means.append(product((ratio, 1 / len(ratios)) for ratio in ratios) if ratios else None)
        return means


# Points by system and point, then by precision; the system is empty if each side has only one, whatever its name.
Side = dict[tuple[str, Point], dict[str, PointResults]]


def compare(base: Sequence[Record], other: Sequence[Record]) -> Comparison:
    """Match the good records of two sides point by point, in each precision that both have.

    Sides with several systems are also matched by system; raises RecordError if they have none in common.
    """
    sides = _sides(base, other)
    lines = []
    for place in sorted(sides[0].keys() & sides[1].keys()):
        system, point = place
        ours, theirs = (side[place] for side in sides)
        pairs = [(ours[precision], theirs[precision]) for precision in sorted(ours.keys() & theirs.keys())]
        several = len(pairs) > 1
        for pair in pairs or [(max(ours.values(), key=_speed), max(theirs.values(), key=_speed))]:
            remarks = [f"system {system}"] if system else []
            remarks += [f"in {pair[0].precision}"] if several else []
            lines.append(_line(point, *pair, remarks))
    failed = [
        f"{record.system}: {point_of(record)}: {record.status}: {record.error}"
        for record in [*base, *other]
        if not record.is_good
    ]
    only_base, only_other = (
        [point for _, point in sorted(mine.keys() - others.keys())] for mine, others in (sides, sides[::-1])
    )
    records = [
        [record for known in side.values() for results in known.values() for record in results.good] for side in sides
    ]
    return Comparison(lines, only_base, only_other, failed, _differences(_machine, *records))


def _line(point: Point, ours: PointResults, theirs: PointResults, remarks: Sequence[str]) -> Line:
    ratios = []
    notes = [*remarks, *_differences(_work, ours.good, theirs.good)]
    for name, side in zip(SIDES, (ours, theirs), strict=True):
        disturbed = (found for record in side.good for found in unsteady(record.step_times_s))
        notes += [f"{name}, {found}" for found in disturbed if found.kind != "few_steps"]
    for _, path in METRICS:
        reason = _why_not(path, ours, theirs)
        if reason:
            notes.append(reason)
        elif ours.sensors(path) != theirs.sensors(path):
            accuracies = " against ".join(accuracy_text(side.any) for side in (ours, theirs))
            notes.append(f"two models of sensors, whose accuracy the interval includes where it is known: {accuracies}")
        ratios.append(None if reason else theirs.over(ours, path))
    return Line(point, ratios, list(dict.fromkeys(notes)))


def _sides(base: Sequence[Record], other: Sequence[Record]) -> list[Side]:
    sides = [[one for one in by_point(records) if one.good] for records in (base, other)]
    systems = [{one.system for one in side} for side in sides]
    is_one = max(map(len, systems)) < 2
    if not is_one and all(systems) and not systems[0] & systems[1]:
        names = [", ".join(sorted(side)) for side in systems]
        raise RecordError(f"{names[0]} cannot be matched with {names[1]}: choose a system of each side with --filter")
    return [_by_place(side, is_one) for side in sides]


def _by_place(side: Sequence[PointResults], is_one: bool) -> Side:
    """Return the good runs of each point; of several sets of options, those with the fastest."""
    places = grouped(side, lambda results: ("" if is_one else results.system, results.point))
    return {
        place: {name: max(alike, key=_speed) for name, alike in grouped(several, lambda one: one.precision).items()}
        for place, several in places.items()
    }


def _speed(results: PointResults) -> float:
    return results.value(METRICS[0][1]) or 0.0


def _why_not(path: str, *sides: PointResults) -> str:
    """Return why a value is not compared: a side is in no ranking, or energies differ in kind or are not ranked."""
    left_out = [why_left_out(side) for side in sides]
    is_same_trial = left_out[0] == left_out[1] and left_out[0] and left_out[0].kind in OF_BOTH
    for name, why in zip(SIDES, left_out, strict=True):
        if why and not is_same_trial:
            return f"not compared: {name}, {why}"
    if sides[0].precision != sides[1].precision:
        return f"not compared: in {sides[0].precision} against {sides[1].precision}"
    if not path.startswith("energy.") or not all(any(record.energy for record in side.good) for side in sides):
        return ""
    if any(grade(record) == ESTIMATE for side in sides for record in side.good):
        return "energies are not compared: one is an estimate"
    kinds = [{record.energy.power_source if record.energy else "" for record in side.good} for side in sides]
    if kinds[0] != kinds[1]:
        names = [" and ".join(sorted(side)) for side in kinds]
        return f"energies are not compared: {names[0]} against {names[1]}"
    broken_rules = [(name, why_not_ranked(side)) for name, side in zip(SIDES, sides, strict=True)]
    return next((f"energies are not compared: {name}, {reason}" for name, reason in broken_rules if reason), "")


def _work(record: Record) -> Mapping[str, str | None]:
    return {"precision": record.precision} | facts_of(record).work


def _machine(record: Record) -> Mapping[str, str | None]:
    commit, dirty = record.provenance.git_commit, record.provenance.git_dirty
    changes = None if dirty is None else "yes" if dirty else "no"
    return facts_of(record).machine | {"commit": commit and commit[:COMMIT_LETTERS], "local changes": changes}


def _differences(facts: Callable[[Record], Mapping[str, str | None]], *sides: Sequence[Record]) -> list[str]:
    """Return the facts in which the records of two sides differ, as text."""
    base, other = (
        together({name: value[:LONGEST] for name, value in facts(record).items() if value} for record in side)
        for side in sides
    )
    return [
        f"{name} {base.get(name, UNKNOWN)} against {other.get(name, UNKNOWN)}"
        for name in sorted(base.keys() | other.keys())
        if base.get(name) != other.get(name)
    ]


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
