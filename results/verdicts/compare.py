"""Two sets of results side by side: how much faster is one, for how much less energy, and does it keep its promise."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from results.points.regions import changes
from results.points.repeats import Point, PointResults, Ratio, by_point, compare_values, geometric_mean, point_of
from results.points.setups import LONGEST, UNKNOWN, software_of
from results.records import Record, RecordError
from results.values import value_at
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
    ratios: list[Ratio | None]
    remarks: list[str]


class Comparison(NamedTuple):
    """`other` over `base`."""

    lines: list[Line]
    only_base: list[Point]
    only_other: list[Point]
    failed: list[str]
    software: list[str]  # in which the good runs of the two differ, in words

    def means(self) -> list[float]:
        """The geometric mean of each metric's ratios over all points that have one, `nan` without any."""
        return [
            geometric_mean([ratio.ratio for line in self.lines if (ratio := line.ratios[index])])
            for index in range(len(METRICS))
        ]


class Requirement(NamedTuple):
    """A value that must be kept: a number of the records, or `ratio` and `energy_ratio` of the comparison."""

    text: str
    name: str
    sign: str
    limit: float

    def holds(self, value: float) -> bool:
        """Is it kept by a value? `nan` keeps nothing."""
        return OPERATORS[self.sign](value, self.limit)


def compare(base: Sequence[Record], other: Sequence[Record]) -> Comparison:
    """Match the good records of two sides point by point."""
    sides = [_by_point(records) for records in (base, other)]
    lines = []
    for point in sorted(set(sides[0]) & set(sides[1])):
        ours, theirs = sides[0][point], sides[1][point]
        ratios, remarks = [], _remarks(ours, theirs)
        for _, path in METRICS:
            values = [[value for record in side if (value := value_at(record, path))] for side in (ours, theirs)]
            reason = _why_not(path, ours, theirs)
            if reason:
                remarks.append(reason)
            ratios.append(compare_values(*values) if all(values) and not reason else None)
        changed = changes(ours, theirs)
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


def _by_point(records: Sequence[Record]) -> dict[Point, list[Record]]:
    """The good runs of each point; where it was run with several sets of options, those with the fastest."""
    found: dict[Point, PointResults] = {}
    for results in by_point(records):
        known = found.get(results.point)
        if results.good and (known is None or _speed(results) > _speed(known)):
            found[results.point] = results
    return {point: results.good for point, results in found.items()}


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


def _software(*sides: dict[Point, list[Record]]) -> list[str]:
    """Versions in which two sides differ; the commit of the suite itself among them."""
    versions: list[dict[str, set[str]]] = [{}, {}]
    for found, side in zip(versions, sides, strict=True):
        for record in chain.from_iterable(side.values()):
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


def comparison_text(comparison: Comparison, base: str, other: str) -> str:
    """For people: a line for each point, the geometric means, and what has no partner."""
    text = [f"{other} over {base}; above 1 is better"]
    for line in comparison.lines:
        values = [f"{title} {ratio if ratio else '-'}" for (title, _), ratio in zip(METRICS, line.ratios, strict=True)]
        text.append(f"  {line.point}: {', '.join(values)}")
        text += [f"    {remark}" for remark in line.remarks]
    for index, ((title, _), mean) in enumerate(zip(METRICS, comparison.means(), strict=True)):
        count = sum(1 for line in comparison.lines if line.ratios[index])
        if count:
            text.append(f"geometric mean of {title} over {count} points: {mean:.3f}")
    for side, points in ((base, comparison.only_base), (other, comparison.only_other)):
        text += [f"only {side} has {point}" for point in points]
    if comparison.software:
        text.append(f"other software: {', '.join(comparison.software)}")
    text += [f"failed: {one}" for one in comparison.failed]
    return "\n".join(text)


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


def broken(requirements: Sequence[Requirement], comparison: Comparison, other: Sequence[Record]) -> list[str]:
    """A sentence on each requirement that `other` does not keep; a value that is not there keeps nothing."""
    means = dict(zip(("ratio", "energy_ratio"), comparison.means(), strict=True))
    found = []
    for requirement in requirements:
        if requirement.name in means:
            value = means[requirement.name]
            if not requirement.holds(value):
                found.append(f"{requirement.text} is not kept: the geometric mean is {value:.4g}")
            continue
        seen = False
        for record in other:
            number = _number(record, requirement.name)
            seen = seen or number is not None
            if record["status"] == "ok" and (number is None or not requirement.holds(number)):
                found.append(f"{requirement.text} is not kept: {point_of(record)} has {number}")
        if not seen:
            found.append(f"{requirement.text} is not kept: no record has a number {requirement.name}")
    if requirements:
        found += [f"a run has failed: {one}" for one in comparison.failed]
        found += [f"a point is missing: {point}" for point in comparison.only_base]
    return found


def _number(record: Record, name: str) -> float | None:
    for path in (name, f"metrics.{name}", f"energy.{name}"):
        value: Any = value_at(record, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None
