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

# Quantities that are numbers of records. More is better, or, as of power, the most of all points must meet the limit.
PATHS = {
    "throughput": THROUGHPUT,
    "throughput_per_device": PER_DEVICE,
    "effective_throughput": "metrics.effective_{unit}_per_s",
    "work_per_energy": WORK,
    "mfu": "metrics.mfu",
    "goodput": "metrics.goodput_requests_per_s",
    "ttft_p99": "metrics.ttft_p99_s",
    "tpot_p99": "metrics.tpot_p99_s",
    "energy_per_token": "energy.j_per_output_token",
    "power": "energy.avg_power_w",
}
UNITS = {"goodput": "requests/s", "ttft_p99": "s", "tpot_p99": "s", "energy_per_token": "J", "power": "W"}
LESS_IS_BETTER = ("ttft_p99", "tpot_p99", "energy_per_token")  # with a limit at_most, and so best where it is least
WHATS = (*PATHS, "time_to_solution", "scaling_efficiency", "failed_runs", "energy_grade")
# Largest limits of shares: with a limit in percent, every or no value would pass.
MOST_OF_SHARES = {"mfu": 1.0, "scaling_efficiency": 2.0}
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}


@dataclass(frozen=True)
class Selection:
    """A workload of the requirements: the runs that belong to it, and its weight in the score."""

    benchmark: str
    model: str = ""  # empty: any, as for data, sample and precision
    data: str = ""
    sample: str = ""
    precision: str = ""
    weight: float = 1.0
    filled: bool = False  # only runs with the tag fill, whose copies fill the nodes

    def has(self, one: PointResults) -> bool:
        """Return whether a point belongs to it. Facts that failed runs did not record are not compared."""
        facts = {"model": one.point.model, "data": one.point.data, "sample": one.point.sample}
        facts["precision"] = one.precision
        known = {name: value for name, value in facts.items() if value or one.good}
        if self.filled and not one.point.copies:
            return False
        return one.point.benchmark == self.benchmark and all(
            not (wanted := getattr(self, name)) or value == wanted for name, value in known.items()
        )


@dataclass(frozen=True)
class Quantity:
    """A quantity of a system, at a given point or at the system's best one."""

    of: str  # a workload of the file
    what: str  # one of WHATS
    devices: int | None = None
    global_batch: int | None = None
    from_devices: int | None = None  # smaller number of a scaling efficiency; None: the fewest measured
    work: float | None = None  # of a time to solution, in units of work; None: the workload's default
    work_unit: str = ""  # filled in from the workload
    unit: str = "h"  # of a time to solution
    without_fastest: int = 0  # number of a point's runs that the mean leaves out
    without_slowest: int = 0
    of_runs: int = 0  # number of runs that are needed

    @property
    def is_trimmed(self) -> bool:
        """Whether it is the mean without the fastest or slowest runs, and not the median."""
        return bool(self.without_fastest or self.without_slowest)

    @property
    def words(self) -> str:
        """Quantity with its devices and batch, as text."""
        place = [
            *([devices_text(self.devices)] if self.devices else []),
            *([f"global batch {self.global_batch}"] if self.global_batch else []),
        ]
        amount = f" of {self.work:,.12g} {self.work_unit}" if self.work else ""
        return self.what.replace("_", " ") + amount + (f" on {', '.join(place)}" if place else "")


@dataclass(frozen=True)
class Item(Quantity):
    """A requirement: a number and its limit."""

    name: str = ""
    at_least: float | str | None = None
    at_most: float | str | None = None

    def __str__(self) -> str:
        return self.name or f"{self.of}: {self.words} {self.limit_words}"

    @property
    def limit_words(self) -> str:
        """Limit that must be met, as text."""
        sign, limit = ("at least", self.at_least) if self.at_least is not None else ("at most", self.at_most)
        number = f"{limit:,.6g}" if isinstance(limit, int | float) else str(limit)
        return f"{sign} {number}{f' {self.unit}' if self.what == 'time_to_solution' else ''}"


@dataclass(frozen=True)
class Budget:
    """Budget that each system is scaled to."""

    devices: int | None = None
    racks: int | None = None
    money: float | None = None
    money_covers: str = "purchase"  # or ownership, which includes electricity over the lifetime
    power_kw: float | None = None  # at the supply

    @property
    def by_energy(self) -> list[str]:
        """Limits under which a system's size depends on its energy."""
        by_money = bool(self.money) and self.money_covers == "ownership"
        return [*(["money"] if by_money else []), *(["power"] if self.power_kw else [])]


@dataclass(frozen=True)
class Score:
    """The buyer's formula, which replaces the weighted geometric mean."""

    formula: Formula
    terms: Mapping[str, Quantity]
    better: str  # higher or lower


@dataclass(frozen=True)
class Requirements:
    """Content of a requirements file."""

    workloads: Mapping[str, Selection]
    must: tuple[Item, ...] = ()
    reference: str = ""  # the system that has score 1; empty: the first
    budget: Budget = field(default_factory=Budget)
    score: Score | None = None


def read_requirements(path: Path) -> Requirements:
    """Read a requirements file; raises RecordError for missing or unknown keys and for invalid values."""
    content = read_mapping(path, "requirements")
    for name in content:
        check_key(name, dict.fromkeys(Requirements.__dataclass_fields__), str(path))
    blocks = content.get("workloads")
    if not isinstance(blocks, dict) or not blocks:
        raise RecordError(f"{path} has no workloads: write 'workloads: {{gpt: {{benchmark: llm_training}}}}'")
    wanted = {str(name): _selection(block, f"{path}, workload {name}") for name, block in blocks.items()}
    items = content.get("must") or []
    if not isinstance(items, list):
        raise RecordError(
            f"{path}: 'must' is a list of requirements, each with 'of', 'what' and 'at_least' or 'at_most'"
        )
    must = tuple(_item(values, f"{path}, requirement {number}", wanted) for number, values in enumerate(items, 1))
    twice = [str(one) for index, one in enumerate(must) if str(one) in map(str, must[:index])]
    if twice:
        raise RecordError(f"{path}: the requirement '{twice[0]}' occurs twice")
    reference = content.get("reference") or ""
    if not isinstance(reference, str | int):
        raise RecordError(f"{path}: reference is {reference!r}, but must be the name of a system")
    score = content.get("score")
    return Requirements(
        wanted,
        must,
        str(reference),
        _budget(content.get("budget") or {}, f"{path}, budget"),
        _score(score, f"{path}, score", wanted) if score is not None else None,
    )


def _selection(values: Any, where: str) -> Selection:
    entry = filled(Selection, values, where)
    if entry.benchmark not in workloads():
        raise RecordError(f"{where}: unknown benchmark {entry.benchmark!r}: choose one of {', '.join(workloads())}")
    if not isinstance(entry.filled, bool):
        raise RecordError(f"{where}: filled is {entry.filled!r}, but must be true or false")
    return entry


def _budget(values: Any, where: str) -> Budget:
    entry = filled(Budget, values, where)
    if entry.money_covers not in ("purchase", "ownership"):
        raise RecordError(f"{where}: money_covers is {entry.money_covers!r}, but must be purchase or ownership")
    for name in ("devices", "racks", "money", "power_kw"):
        if getattr(entry, name) == 0:
            raise RecordError(f"{where}: {name} is 0, but must be greater than 0")
    return entry


def _score(values: Any, where: str, wanted: Mapping[str, Selection]) -> Score:
    if not isinstance(values, dict) or not isinstance(values.get("terms"), dict):
        raise RecordError(f"{where}: give a 'formula', such as 3 / R, and 'terms', such as 'R: {{of: gpt, what: ...}}'")
    terms = {
        str(name): _quantity(Quantity, one, f"{where}, term {name}", wanted) for name, one in values["terms"].items()
    }
    formula = Formula(str(values.get("formula", "")), tuple(terms), where)
    entry = filled(Score, {**values, "formula": formula, "terms": terms}, where)
    if entry.better not in ("higher", "lower"):
        raise RecordError(f"{where}: better is {entry.better!r}, but must be higher or lower")
    for name, quantity in terms.items():
        if quantity.what == "energy_grade":
            raise RecordError(f"{where}, term {name}: a grade is not a number")
    return entry


def _item(values: Any, where: str, wanted: Mapping[str, Selection]) -> Item:
    entry: Item = _quantity(Item, values, where, wanted)
    if (entry.at_least is None) == (entry.at_most is None):
        raise RecordError(f"{where}: give either 'at_least' or 'at_most'")
    limit = entry.at_least if entry.at_most is None else entry.at_most
    if entry.what == "energy_grade":
        if entry.at_most is not None or limit not in GRADES:
            raise RecordError(f"{where}: a grade of energy needs at_least with one of {', '.join(GRADES)}")
    elif isinstance(limit, str):
        raise RecordError(f"{where}: {limit!r} is not a number")
    elif entry.what in MOST_OF_SHARES and limit is not None and limit > MOST_OF_SHARES[entry.what]:
        raise RecordError(f"{where}: the limit {limit:g} of {entry.what} is too large: write 0.25 for 25 %")
    return entry


def _quantity(kind: type[Any], values: Any, where: str, wanted: Mapping[str, Selection]) -> Any:
    entry = filled(kind, values, where)
    if entry.of not in wanted:
        raise RecordError(f"{where}: 'of' is {entry.of!r}, but must be one of the file's workloads {', '.join(wanted)}")
    if entry.what not in WHATS:
        check_key(entry.what, dict.fromkeys(WHATS), f"{where}: 'what'")
    if "unit" in values and entry.what != "time_to_solution":
        raise RecordError(f"{where}: unit is {entry.unit!r}, but only a time_to_solution has one: leave it out")
    if entry.unit not in SECONDS:
        raise RecordError(f"{where}: unit is {entry.unit!r}, but must be one of {', '.join(SECONDS)}")
    for name in ("devices", "global_batch", "from_devices", "work"):
        if getattr(entry, name) == 0:
            raise RecordError(f"{where}: {name} is 0, but must be greater than 0")
    facts = workloads()[wanted[entry.of].benchmark]
    if entry.work_unit not in ("", facts.work_unit):
        raise RecordError(f"{where}: work_unit is {entry.work_unit!r}, but {facts.title} counts {facts.work_unit}")
    entry = replace(entry, work_unit=facts.work_unit)
    if entry.what == "time_to_solution" and entry.work is None:
        if facts.reported is None:
            raise RecordError(f"{where}: a time to solution needs 'work', in {facts.work_unit}")
        entry = replace(entry, work=facts.reported.amount)
    if entry.is_trimmed and entry.of_runs <= entry.without_fastest + entry.without_slowest:
        raise RecordError(f"{where}: of_runs must be larger than the number of runs left out")
    return entry
