"""Requirements that a buyer writes before the offers are opened: limits to meet, weights of the score, the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from results.points.repeats import PointResults
from results.record.records import RecordError
from results.record.values import PER_DEVICE, THROUGHPUT, WORK, devices_text
from results.verdicts.formula import Formula
from results.verdicts.quality import GRADES
from results.verdicts.written import check_key, filled, read_mapping
from results.workloads import workloads

# What can be asked that is a number of records, of which more is better.
PATHS = {
    "throughput": THROUGHPUT,
    "throughput_per_device": PER_DEVICE,
    "effective_throughput": "metrics.effective_{unit}_per_s",
    "work_per_energy": WORK,
    "mfu": "metrics.mfu",
}
WHATS = (*PATHS, "time_to_solution", "scaling_efficiency", "failed_runs", "energy_grade")
# Shares, of which a limit in percent would be kept or broken by everything.
MOST_OF_SHARES = {"mfu": 1.0, "scaling_efficiency": 2.0}
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}


@dataclass(frozen=True)
class Wanted:
    """A workload that counts: which of the runs are of it, and its weight in the score."""

    benchmark: str
    model: str = ""  # empty: whatever was run
    data: str = ""
    sample: str = ""
    precision: str = ""
    weight: float = 1.0

    def has(self, one: PointResults) -> bool:
        """Is a point of it? Runs that failed do not know all that they would have been; good ones must tell."""
        facts = {"model": one.point.model, "data": one.point.data, "sample": one.point.sample}
        facts["precision"] = one.precision
        told = {name: value for name, value in facts.items() if value or one.good}
        return one.point.benchmark == self.benchmark and all(
            not (wanted := getattr(self, name)) or value == wanted for name, value in told.items()
        )


@dataclass(frozen=True)
class Asked:
    """A number that is asked of a system, at a point, or where it is best."""

    of: str  # a workload of the file
    what: str  # one of WHATS
    devices: int | None = None
    global_batch: int | None = None
    from_devices: int | None = None  # of a scaling efficiency; without: the fewest measured
    work: float | None = None  # of a time to solution, in units of work; without: the workload's own
    work_unit: str = ""  # the workload's own
    unit: str = "h"  # of a time to solution
    without_fastest: int = 0  # of a point's runs: so many are left out, and the mean of the others is taken
    without_slowest: int = 0
    of_runs: int = 0  # so many runs are needed

    @property
    def is_trimmed(self) -> bool:
        """Is it the mean of the runs that are neither fastest nor slowest, in place of the median?"""
        return bool(self.without_fastest or self.without_slowest)

    @property
    def words(self) -> str:
        """Quantity that is asked for, with its devices and batch, in words."""
        place = [
            *([devices_text(self.devices)] if self.devices else []),
            *([f"global batch {self.global_batch}"] if self.global_batch else []),
        ]
        amount = f" of {self.work:,.12g} {self.work_unit}" if self.work else ""
        return self.what.replace("_", " ") + amount + (f" on {', '.join(place)}" if place else "")


@dataclass(frozen=True)
class Item(Asked):
    """A requirement: a number and its limit."""

    name: str = ""
    at_least: float | str | None = None
    at_most: float | str | None = None

    def __str__(self) -> str:
        return self.name or f"{self.of}: {self.words} {self.limit_words}"

    @property
    def limit_words(self) -> str:
        """Limit that must be met, in words."""
        sign, limit = ("at least", self.at_least) if self.at_least is not None else ("at most", self.at_most)
        number = f"{limit:,.6g}" if isinstance(limit, int | float) else str(limit)
        return f"{sign} {number}{f' {self.unit}' if self.what == 'time_to_solution' else ''}"


@dataclass(frozen=True)
class Budget:
    """Budget that each system is scaled to."""

    devices: int | None = None
    racks: int | None = None
    money: float | None = None
    money_covers: str = "purchase"  # or ownership: electricity of the lifetime, too
    power_kw: float | None = None  # at the supply

    @property
    def by_energy(self) -> list[str]:
        """Limits under which a system's size depends on its energy."""
        by_money = bool(self.money) and self.money_covers == "ownership"
        return [*(["money"] if by_money else []), *(["power"] if self.power_kw else [])]


@dataclass(frozen=True)
class Score:
    """The buyer's own formula in place of the weighted geometric mean."""

    formula: Formula
    terms: Mapping[str, Asked]
    better: str  # higher or lower


@dataclass(frozen=True)
class Requirements:
    """All that a requirements file says."""

    workloads: Mapping[str, Wanted]
    must: tuple[Item, ...] = ()
    reference: str = ""  # a system that scores are ratios to; empty: the first
    budget: Budget = field(default_factory=Budget)
    score: Score | None = None


def read_requirements(path: Path) -> Requirements:
    """A requirements file; raises RecordError for what it lacks, does not know, or cannot be."""
    content = read_mapping(path, "requirements")
    for name in content:
        check_key(name, dict.fromkeys(Requirements.__dataclass_fields__), str(path))
    blocks = content.get("workloads")
    if not isinstance(blocks, dict) or not blocks:
        raise RecordError(f"{path} names no workloads: write 'workloads: {{gpt: {{benchmark: llm_training}}}}'")
    wanted = {str(name): _wanted(block, f"{path}, workload {name}") for name, block in blocks.items()}
    items = content.get("must") or []
    if not isinstance(items, list):
        raise RecordError(
            f"{path}: 'must' is a list of requirements, each with 'of', 'what' and 'at_least' or 'at_most'"
        )
    must = tuple(_item(values, f"{path}, requirement {number}", wanted) for number, values in enumerate(items, 1))
    twice = [str(one) for index, one in enumerate(must) if str(one) in map(str, must[:index])]
    if twice:
        raise RecordError(f"{path}: the requirement '{twice[0]}' is there twice")
    reference = content.get("reference") or ""
    if not isinstance(reference, str | int):
        raise RecordError(f"{path}: reference is {reference!r}, the name of a system is needed")
    score = content.get("score")
    return Requirements(
        wanted,
        must,
        str(reference),
        _budget(content.get("budget") or {}, f"{path}, budget"),
        _score(score, f"{path}, score", wanted) if score is not None else None,
    )


def _wanted(values: Any, where: str) -> Wanted:
    found = filled(Wanted, values, where)
    if found.benchmark not in workloads():
        raise RecordError(f"{where}: there is no benchmark {found.benchmark!r}, there are {', '.join(workloads())}")
    return found


def _budget(values: Any, where: str) -> Budget:
    found = filled(Budget, values, where)
    if found.money_covers not in ("purchase", "ownership"):
        raise RecordError(f"{where}: money_covers is {found.money_covers!r}, it is purchase or ownership")
    for name in ("devices", "racks", "money", "power_kw"):
        if getattr(found, name) == 0:
            raise RecordError(f"{where}: {name} is 0: nothing can be bought")
    return found


def _score(values: Any, where: str, wanted: Mapping[str, Wanted]) -> Score:
    if not isinstance(values, dict) or not isinstance(values.get("terms"), dict):
        raise RecordError(
            f"{where}: it has a 'formula', such as 3 / R, and 'terms', such as 'R: {{of: gpt, what: ...}}'"
        )
    terms = {str(name): _asked(Asked, one, f"{where}, term {name}", wanted) for name, one in values["terms"].items()}
    formula = Formula(str(values.get("formula", "")), tuple(terms), where)
    found = filled(Score, {**values, "formula": formula, "terms": terms}, where)
    if found.better not in ("higher", "lower"):
        raise RecordError(f"{where}: better is {found.better!r}, it is higher or lower")
    for name, asked in terms.items():
        if asked.what == "energy_grade":
            raise RecordError(f"{where}, term {name}: a grade is no number")
    return found


def _item(values: Any, where: str, wanted: Mapping[str, Wanted]) -> Item:
    found: Item = _asked(Item, values, where, wanted)
    if (found.at_least is None) == (found.at_most is None):
        raise RecordError(f"{where}: it has either 'at_least' or 'at_most'")
    limit = found.at_least if found.at_most is None else found.at_most
    if found.what == "energy_grade":
        if found.at_most is not None or limit not in GRADES:
            raise RecordError(f"{where}: a grade of energy is at_least one of {', '.join(GRADES)}")
    elif isinstance(limit, str):
        raise RecordError(f"{where}: {limit!r} is no number")
    elif found.what in MOST_OF_SHARES and limit is not None and limit > MOST_OF_SHARES[found.what]:
        raise RecordError(f"{where}: {limit:g} is wanted of {found.what}, which is a share: write 0.25 for 25 %")
    return found


def _asked(kind: type[Any], values: Any, where: str, wanted: Mapping[str, Wanted]) -> Any:
    found = filled(kind, values, where)
    if found.of not in wanted:
        raise RecordError(f"{where}: 'of' is {found.of!r}, the file's workloads are {', '.join(wanted)}")
    if found.what not in WHATS:
        check_key(found.what, dict.fromkeys(WHATS), f"{where}: 'what'")
    if "unit" in values and found.what != "time_to_solution":
        raise RecordError(f"{where}: unit is {found.unit!r}, but only a time_to_solution has one: leave it out")
    if found.unit not in SECONDS:
        raise RecordError(f"{where}: unit is {found.unit!r}, one of {', '.join(SECONDS)} is needed")
    for name in ("devices", "global_batch", "from_devices", "work"):
        if getattr(found, name) == 0:
            raise RecordError(f"{where}: {name} is 0, a number above 0 is needed")
    facts = workloads()[wanted[found.of].benchmark]
    if found.work_unit not in ("", facts.work_unit):
        raise RecordError(f"{where}: work_unit is {found.work_unit!r}, but {facts.title} counts {facts.work_unit}")
    found = replace(found, work_unit=facts.work_unit)
    if found.what == "time_to_solution" and found.work is None:
        if facts.reported is None:
            raise RecordError(f"{where}: a time to solution needs 'work', in {facts.work_unit}")
        found = replace(found, work=facts.reported.amount)
    if found.is_trimmed and found.of_runs <= found.without_fastest + found.without_slowest:
        raise RecordError(f"{where}: of_runs says of how many runs some are left out, more than those")
    return found
