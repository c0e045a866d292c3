"""Two sets of results side by side: how much faster is one, for how much less energy, and does it keep its promise."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from results.points.estimate import Estimate, product
from results.points.regions import changes
from results.points.repeats import Point, PointResults, by_point, disturbances, energy_of_path, point_of, step_times_s
from results.points.sensors import accuracy_text
from results.points.setups import LONGEST, OPTION, UNKNOWN, machine_of, together, work_of
from results.record.records import Record, RecordError, Skipped
from results.record.values import energy_source
from results.verdicts.outcome import Outcome, judge
from results.verdicts.quality import ESTIMATE, grade, why_not_ranked

# What is compared: its title and where it is; for all of them more is better.
METRICS = (
    ("throughput", "metrics.{unit}_per_s"),
    ("work per energy", "energy.{unit}_per_wh"),
)
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
SIDES = ("base", "other")
COMMIT_LETTERS = 12
REQUIREMENT = re.compile(r"\s*([\w.]+)\s*(>=|<=|>|<)\s*([-+\d.eE_]+)\s*")


class Line(NamedTuple):
    """One point that both sides have; a ratio is None where a side has no value, or the two cannot be compared."""

    point: Point
    ratios: list[Estimate | None]
    remarks: list[str]
    precisions: tuple[str, str]  # of the two sides, which are the same where both have one
    by_sampling: list[Estimate | None]  # the ratios without the accuracy of the sensors


class Comparison(NamedTuple):
    """`other` over `base`."""

    lines: list[Line]
    only_base: list[Point]
    only_other: list[Point]
    failed: list[str]
    machines: list[str]  # software, devices, nodes and environment in which the good runs of the two differ, in words

    def means(self, by_sampling: bool = False) -> list[Estimate | None]:
        """The geometric mean of each metric's ratios over all points that have one, None without any."""
        found: list[Estimate | None] = []
        for index in range(len(METRICS)):
            of_lines = [line.by_sampling if by_sampling else line.ratios for line in self.lines]
            ratios = [ratio for ratios in of_lines if (ratio := ratios[index])]
            found.append(product((ratio, 1 / len(ratios)) for ratio in ratios) if ratios else None)
        return found


class Requirement(NamedTuple):
    """A value that must be kept: a number of the records, or `ratio` and `energy_ratio` of the comparison."""

    text: str
    name: str
    sign: str
    limit: float

    def holds(self, value: float) -> bool:
        """Is it kept by a value?"""
        return OPERATORS[self.sign](value, self.limit)


class Place(NamedTuple):
    """Key that matches two sides; the system is empty if each side has only one, whatever its name."""

    system: str
    point: Point


Side = dict[Place, dict[str, PointResults]]  # by precision


def compare(base: Sequence[Record], other: Sequence[Record]) -> Comparison:
    """Match the good records of two sides point by point, in each precision that both have.

    Sides of several systems are matched by these, too; raises RecordError where they have none in common.
    """
    sides = _sides(base, other)
    lines = []
    for place in sorted(set(sides[0]) & set(sides[1])):
        ours, theirs = (side[place] for side in sides)
        alike = [(ours[precision], theirs[precision]) for precision in sorted(set(ours) & set(theirs))]
        remarks = [f"system {place.system}"] if place.system else []
        pairs = alike or [(max(ours.values(), key=_speed), max(theirs.values(), key=_speed))]
        for pair in pairs:
            of_precision = [f"in {pair[0].precision}"] if len(pairs) > 1 else []
            lines.append(_line(place.point, *pair, remarks + of_precision))
    failed = [
        f"{record['system']}: {point_of(record)}: {record['status']}: {record.get('error', '')}"
        for record in [*base, *other]
        if record["status"] != "ok"
    ]
    only_base, only_other = (
        [place.point for place in sorted(set(sides[index]) - set(sides[1 - index]))] for index in (0, 1)
    )
    records = [
        [record for known in side.values() for results in known.values() for record in results.good] for side in sides
    ]
    return Comparison(lines, only_base, only_other, failed, _differences(_machine, *records))


def _line(point: Point, ours: PointResults, theirs: PointResults, remarks: Sequence[str]) -> Line:
    ratios, by_sampling = [], []
    said = [*remarks, *_remarks(ours.good, theirs.good)]
    for _, path in METRICS:
        reason = _why_not(path, ours, theirs)
        if reason:
            said.append(reason)
        elif ours.sensors(path) != theirs.sensors(path):
            accuracies = " and ".join(accuracy_text(side.any) for side in (ours, theirs))
            said.append(f"the interval includes the accuracy of two models of sensors: {accuracies}")
        ratios.append(None if reason else theirs.over(ours, path))
        by_sampling.append(None if reason else theirs.over(ours, path, with_accuracy=False))
    changed = changes(ours.good, theirs.good)
    if changed:
        said.append(changed)
    return Line(point, ratios, said, (ours.precision, theirs.precision), by_sampling)


def _sides(base: Sequence[Record], other: Sequence[Record]) -> list[Side]:
    sides = [[one for one in by_point(records) if one.good] for records in (base, other)]
    systems = [{one.system for one in side} for side in sides]
    is_one = max(map(len, systems)) < 2
    if not is_one and all(systems) and not systems[0] & systems[1]:
        names = [", ".join(sorted(side)) for side in systems]
        raise RecordError(f"{names[0]} cannot be matched with {names[1]}: choose a system of each side with --filter")
    return [_by_place(side, is_one) for side in sides]


def _by_place(side: Sequence[PointResults], is_one: bool) -> Side:
    """The good runs of each point; where it was run with several sets of options, those with the fastest."""
    found: Side = {}
    for results in side:
        known = found.setdefault(Place("" if is_one else results.system, results.point), {})
        if results.precision not in known or _speed(results) > _speed(known[results.precision]):
            known[results.precision] = results
    return found


def _speed(results: PointResults) -> float:
    return results.value(METRICS[0][1]) or 0.0


def _why_not(path: str, *sides: PointResults) -> str:
    """Energies of different kinds or scopes are not set against each other, nor those that are not ranked."""
    if not path.startswith("energy.") or not all(any(record.get("energy") for record in side.good) for side in sides):
        return ""
    if any(grade(record) == ESTIMATE for side in sides for record in side.good):
        return "energies are not compared: there is an estimate among them"
    kinds = [{energy_source(record) for record in side.good} for side in sides]
    if kinds[0] != kinds[1]:
        names = [" and ".join(sorted(side)) for side in kinds]
        return f"energies are not compared: {names[0]} against {names[1]}"
    broken_rules = [(name, why_not_ranked(side)) for name, side in zip(SIDES, sides, strict=True)]
    return next((f"energies are not compared: {name}, {reason}" for name, reason in broken_rules if reason), "")


def _remarks(*sides: Sequence[Record]) -> list[str]:
    found = _differences(_work, *sides)
    for name, side in zip(SIDES, sides, strict=True):
        disturbed = dict.fromkeys(words for record in side for words in disturbances(step_times_s(record)))
        found += [f"{name}, {words}" for words in disturbed]
    return found


def _work(record: Record) -> dict[str, str]:
    """Options and layout, each once: a choice may be an option's value by another name."""
    found = {name: value for name, value in work_of(record).items() if not name.startswith(OPTION)}
    chosen = {name: value for name, value in record.get("choices", {}).items() if value not in found.values()}
    return {"precision": str(record.get("precision") or "")} | chosen | found


def _machine(record: Record) -> dict[str, str | None]:
    origin = record.get("provenance") or {}
    commit, dirty = origin.get("git_commit"), origin.get("git_dirty")
    changes = None if dirty is None else "yes" if dirty else "no"
    code = {"commit": commit and commit[:COMMIT_LETTERS], "local changes": changes}
    return machine_of(record) | code


def _differences(facts: Callable[[Record], Mapping[str, str | None]], *sides: Sequence[Record]) -> list[str]:
    """Say in which facts the records of two sides differ."""
    base, other = (
        together({name: value[:LONGEST] for name, value in facts(record).items() if value} for record in side)
        for side in sides
    )
    return [
        f"{name} {base.get(name, UNKNOWN)} against {other.get(name, UNKNOWN)}"
        for name in sorted(base.keys() | other.keys())
        if base.get(name) != other.get(name)
    ]


def read_requirement(text: str) -> Requirement:
    """`name>=number`; raises RecordError for anything else."""
    found = REQUIREMENT.fullmatch(text)
    try:
        if found:
            return Requirement(text, found[1], found[2], float(found[3]))
    except ValueError:
        pass
    examples = "'tokens_per_s_per_device>=40000' or 'ratio>=1.5'"
    raise RecordError(f"--require {text!r} is no requirement: write it as {examples}")


def broken(
    requirements: Sequence[Requirement],
    comparison: Comparison,
    other: Sequence[Record],
    skipped: Sequence[Skipped] = (),
) -> list[tuple[Outcome, str]]:
    """Return the requirements that `other` fails or that remain open, each with a sentence.

    A requirement passes if the whole interval of its value meets it, at every point that has one. It is open without
    repeated runs, without a value, with an energy that is not ranked, or with two precisions.
    """
    means = dict(zip(("ratio", "energy_ratio"), comparison.means(), strict=True))
    narrower = dict(zip(means, comparison.means(by_sampling=True), strict=True))
    found: list[tuple[Outcome, str]] = []
    mixed = next((line for line in comparison.lines if len(set(line.precisions)) > 1 or "" in line.precisions), None)
    for requirement in requirements:
        if requirement.name in means and mixed:
            precisions = " against ".join(one or "of a precision that is not known" for one in mixed.precisions)
            found.append((Outcome.OPEN, f"{requirement.text} cannot be told: {mixed.point} is {precisions}"))
            continue
        if requirement.name in means:
            values = [("the geometric mean", means[requirement.name])]
        else:
            values = [(f"{one.point}", _number(one, requirement.name)) for one in by_point(other) if one.good]
            if not any(value for _, value in values):
                values = [(f"no record has a number {requirement.name} that counts: it", None)]
        for place, value in values:
            outcome, words = _judged(requirement, value)
            without = narrower.get(requirement.name)
            if outcome == Outcome.OPEN and without and _judged(requirement, without)[0] == Outcome.PASSED:
                words += ", and it holds only without the accuracy of the sensors"
            if outcome != Outcome.PASSED:
                verb = "is not kept" if outcome == Outcome.FAILED else "cannot be told"
                found.append((outcome, f"{requirement.text} {verb}: {place} {words}"))
    if requirements:
        found += [(Outcome.FAILED, f"a run has failed: {one}") for one in comparison.failed]
        found += [(Outcome.OPEN, f"a run may be missing: {one}") for one in skipped if one.systems is not None]
        missing = [*comparison.only_base, *comparison.only_other]
        found += [(Outcome.FAILED, f"a point is missing on one side: {point}") for point in missing]
    return found


def _judged(requirement: Requirement, value: Estimate | None) -> tuple[Outcome, str]:
    if value is None:
        return Outcome.OPEN, "has no value"
    if value.interval is None:
        return Outcome.OPEN, f"is {value.value:.4g}, and one run gives no interval"
    outcome, (low, high) = judge(requirement.holds, value.interval), value.interval
    return outcome, f"is {value.value:.4g}, between {low:.4g} and {high:.4g}"


def _number(one: PointResults, name: str) -> Estimate | None:
    """A number of a point's records by its name; None for an energy that is not ranked."""
    for path in (name, f"metrics.{name}", f"energy.{name}"):
        energy = energy_of_path(path)
        if energy and why_not_ranked(one, energy):
            return None
        estimate = one.estimate(path, with_accuracy=True)
        if estimate:
            return estimate
    return None
