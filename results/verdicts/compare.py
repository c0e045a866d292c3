"""Two sets of results side by side: how much faster is one, for how much less energy, and does it keep its promise."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from results.points.estimate import Estimate, product
from results.points.regions import changes
from results.points.repeats import Point, PointResults, by_point, point_of
from results.points.setups import LONGEST, UNKNOWN, software_of
from results.records import Record, RecordError
from results.values import value_at
from results.verdicts.outcome import Outcome
from results.verdicts.quality import grade

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
COMMIT_LETTERS = 12
REQUIREMENT = re.compile(r"\s*([\w.]+)\s*(>=|<=|>|<)\s*([-+\d.eE_]+)\s*")
# What may differ between two systems, and should be known where it does, beside the choices of their records.
REMARKS = (
    ("precision", "precision"),
    ("micro batch", "layout.micro_batch_size"),
    ("tensor parallel over", "layout.tensor_parallel_size"),
    ("pipeline parallel over", "layout.pipeline_parallel_size"),
)


class Line(NamedTuple):
    """One point that both sides have; a ratio is None where a side has no value, or the two cannot be compared."""

    point: Point
    ratios: list[Estimate | None]
    remarks: list[str]


class Comparison(NamedTuple):
    """`other` over `base`."""

    lines: list[Line]
    only_base: list[Point]
    only_other: list[Point]
    failed: list[str]
    software: list[str]  # in which the good runs of the two differ, in words

    def means(self) -> list[Estimate | None]:
        """The geometric mean of each metric's ratios over all points that have one, None without any."""
        found: list[Estimate | None] = []
        for index in range(len(METRICS)):
            ratios = [ratio for line in self.lines if (ratio := line.ratios[index])]
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


def compare(base: Sequence[Record], other: Sequence[Record]) -> Comparison:
    """Match the good records of two sides point by point."""
    sides = [_by_point(records) for records in (base, other)]
    lines = []
    for point in sorted(set(sides[0]) & set(sides[1])):
        ours, theirs = sides[0][point], sides[1][point]
        ratios: list[Estimate | None] = []
        remarks = _remarks(ours.good, theirs.good)
        for _, path in METRICS:
            values = [side.estimate(path) for side in (ours, theirs)]
            reason = _why_not(path, ours.good, theirs.good)
            if reason:
                remarks.append(reason)
            ratios.append(values[1] / values[0] if values[0] and values[1] and not reason else None)
        changed = changes(ours.good, theirs.good)
        if changed:
            remarks.append(changed)
        lines.append(Line(point, ratios, remarks))
    failed = [
        f"{record['system']}: {point_of(record)}: {record['status']}: {record.get('error', '')}"
        for record in [*base, *other]
        if record["status"] != "ok"
    ]
    only_base, only_other = (sorted(set(sides[index]) - set(sides[1 - index])) for index in (0, 1))
    return Comparison(lines, only_base, only_other, failed, _software(*sides))


def _by_point(records: Sequence[Record]) -> dict[Point, PointResults]:
    """The good runs of each point; where it was run with several sets of options, those with the fastest."""
    found: dict[Point, PointResults] = {}
    for results in by_point(records):
        known = found.get(results.point)
        if results.good and (known is None or _speed(results) > _speed(known)):
            found[results.point] = results
    return found


def _speed(results: PointResults) -> float:
    return results.value(METRICS[0][1]) or 0.0


def _why_not(path: str, *sides: Sequence[Record]) -> str:
    """Energies of different kinds or scopes are not set against each other, nor are estimates."""
    if not path.startswith("energy."):
        return ""
    if any(grade(record) == "Q0" for side in sides for record in side):
        return "energies are not compared: there is an estimate among them"
    kinds = [{value_at(record, "energy.power_source") for record in side} for side in sides]
    if kinds[0] == kinds[1]:
        return ""
    names = [" and ".join(sorted(str(kind) for kind in side)) for side in kinds]
    return f"energies are not compared: {names[0]} against {names[1]}"


def _remarks(*sides: Sequence[Record]) -> list[str]:
    found = []
    chosen = dict.fromkeys(title for side in sides for record in side for title in record.get("choices", {}))
    paths = [*REMARKS, *((title, f"choices.{title}") for title in chosen)]
    for title, path in paths:
        values = []
        for side in sides:
            seen = {str(value) for record in side if (value := value_at(record, path)) is not None}
            values.append(" and ".join(sorted(seen)) or "unknown")
        if values[0] != values[1]:
            found.append(f"{title} {values[0]} against {values[1]}")
    return found


def _software(*sides: dict[Point, PointResults]) -> list[str]:
    """Versions in which two sides differ; the commit of the suite itself among them."""
    versions: list[dict[str, set[str]]] = [{}, {}]
    for found, side in zip(versions, sides, strict=True):
        for record in chain.from_iterable(results.good for results in side.values()):
            commit = (record.get("provenance") or {}).get("git_commit")
            for name, version in {**software_of(record), "commit": commit and commit[:COMMIT_LETTERS]}.items():
                if version:
                    found.setdefault(name, set()).add(version[:LONGEST])
    base, other = versions
    return [
        f"{name} {' and '.join(sorted(base.get(name, {UNKNOWN})))} against "
        f"{' and '.join(sorted(other.get(name, {UNKNOWN})))}"
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
    requirements: Sequence[Requirement], comparison: Comparison, other: Sequence[Record]
) -> list[tuple[Outcome, str]]:
    """What `other` does not keep, and what cannot be told, each in a sentence.

    A requirement is kept where the whole interval of its value keeps it, at every point that has one; without runs that
    tell of a spread, without a value, or with an estimate it cannot be told.
    """
    means = dict(zip(("ratio", "energy_ratio"), comparison.means(), strict=True))
    found: list[tuple[Outcome, str]] = []
    for requirement in requirements:
        if requirement.name in means:
            values = [("the geometric mean", means[requirement.name])]
        else:
            values = [(f"{one.point}", _number(one, requirement.name)) for one in by_point(other) if one.good]
            if not any(value for _, value in values):
                values = [(f"no record has a number {requirement.name} that counts: it", None)]
        for place, value in values:
            outcome, words = _judged(requirement, value)
            if outcome != Outcome.PASSED:
                verb = "is not kept" if outcome == Outcome.FAILED else "cannot be told"
                found.append((outcome, f"{requirement.text} {verb}: {place} {words}"))
    if requirements:
        found += [(Outcome.FAILED, f"a run has failed: {one}") for one in comparison.failed]
        missing = [*comparison.only_base, *comparison.only_other]
        found += [(Outcome.FAILED, f"a point is missing on one side: {point}") for point in missing]
    return found


def _judged(requirement: Requirement, value: Estimate | None) -> tuple[Outcome, str]:
    if value is None:
        return Outcome.OPEN, "has no value"
    if value.interval is None:
        return Outcome.OPEN, f"is {value.value:.4g}, and one run tells of no spread"
    ends = [requirement.holds(end) for end in value.interval]
    if all(ends):
        return Outcome.PASSED, ""
    low, high = value.interval
    words = f"is {value.value:.4g}, between {low:.4g} and {high:.4g}"
    return (Outcome.OPEN if any(ends) else Outcome.FAILED), words


def _number(one: PointResults, name: str) -> Estimate | None:
    """A number of a point's records by its name; None for an energy that is an estimate."""
    for path in (name, f"metrics.{name}", f"energy.{name}"):
        if path.startswith("energy.") and any(grade(record) == "Q0" for record in one.good):
            return None
        estimate = one.estimate(path)
        if estimate:
            return estimate
    return None
