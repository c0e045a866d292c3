"""Requirements that a buyer writes before the offers are opened: limits to meet, weights of the score, the budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from results.points.repeats import PointResults
from results.record.quantities import QUANTITIES
from results.record.records import RecordError
from results.record.values import devices_text
from results.verdicts.fixed import Fixed, read_fixed
from results.verdicts.formula import Formula
from results.verdicts.quality import GRADES
from results.verdicts.written import check_key, filled, read_mapping
from results.workloads import workloads

# Quantities that are numbers of records. More is better, or, as of power, the most of all points must meet the limit.
MEASURED = {one.required_as: one for one in QUANTITIES.values() if one.required_as}
LESS_IS_BETTER = tuple(name for name, one in MEASURED.items() if one.better == "less")  # with a limit at_most
LATENCIES = ("ttft_p99", "tpot_p99")  # of one load: any server is fast with one request in flight
TIMES = {  # for `work`, in `unit`, with the speeds that they follow from
    "time_to_solution": QUANTITIES["work_per_s"],
    "machine_time": QUANTITIES["work_per_s_per_device"],
}
WHATS = (*MEASURED, *TIMES, "scaling_efficiency", "failed_runs", "energy_grade")
COMMITTED_POWER = "committed_power"  # of a pledge alone, in kW
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
    filled: bool = False  # true: only runs with the tag fill, whose copies fill the nodes; false: only others
    fixed: Fixed = field(default_factory=Fixed)  # what a run must keep for it to count

    def has(self, one: PointResults) -> bool:
        """Return whether a point belongs to it. Facts that failed runs did not record are not compared."""
        facts = {"model": one.point.model, "data": one.point.data, "sample": one.point.sample}
        facts["precision"] = one.precision
        known = {name: value for name, value in facts.items() if value or one.good}
        if self.filled != bool(one.point.copies):  # several copies are no job on all their devices
            return False
        return one.point.benchmark == self.benchmark and all(
            not (wanted := getattr(self, name)) or value == wanted for name, value in known.items()
        )

    def of(self, results: Iterable[PointResults]) -> list[PointResults]:
        """Return its points with the runs that count: those that keep what is fixed."""
        return [kept for one in results if self.has(one) and (kept := self.fixed.kept(one))]


@dataclass(frozen=True)
class Quantity:
    """A quantity of a system, at a given point or at the system's best one."""

    of: str  # a workload of the file
    what: str  # one of WHATS
    devices: int | None = None
    global_batch: int | None = None
    from_devices: int | None = None  # smaller number of a scaling efficiency; None: the fewest measured
    work: float | None = None  # of a time, in units of work; None: the workload's default
    work_unit: str = ""  # filled in from the workload
    unit: str = "h"  # of a time
    machine_devices: int | None = None  # of a machine time: devices of the whole machine
    without_fastest: int = 0  # number of a point's runs that the mean leaves out
    without_slowest: int = 0
    of_runs: int = 0  # number of runs that are needed
    power_limit_w: float | None = None  # of the operating point; None: any
    clock_limit_mhz: float | None = None
    within_limits: bool = False  # at loads alone that keep the limits of TTFT and TPOT that their runs state

    @property
    def is_trimmed(self) -> bool:
        """Whether it is the mean without the fastest or slowest runs, and not the median."""
        return bool(self.without_fastest or self.without_slowest)

    @property
    def words(self) -> str:
        """Quantity with its devices, batch and limits, as text."""
        place = [
            *([devices_text(self.devices)] if self.devices else []),
            *([f"global batch {self.global_batch}"] if self.global_batch else []),
        ]
        limits = [
            *([f"a power limit of {self.power_limit_w:g} W"] if self.power_limit_w else []),
            *([f"a clock limit of {self.clock_limit_mhz:g} MHz"] if self.clock_limit_mhz else []),
        ]
        amount = f" of {self.work:,.12g} {self.work_unit}" if self.work else ""
        where = (f" on {', '.join(place)}" if place else "") + (f" at {' and '.join(limits)}" if limits else "")
        where += " within the limits of TTFT and TPOT" if self.within_limits else ""
        return self.what.replace("_", " ") + amount + where


@dataclass(frozen=True)
class Item(Quantity):
    """A requirement: a number and its limit."""

    name: str = ""
    at_least: float | str | None = None
    at_most: float | str | None = None
    WORDS: ClassVar[Mapping[str, str]] = {}  # for outcomes, where other ones than their own

    def __str__(self) -> str:
        return self.name or f"{self.of}: {self.words} {self.limit_words}"

    @property
    def limit_words(self) -> str:
        """Limit that must be met, as text."""
        sign, limit = ("at least", self.at_least) if self.at_least is not None else ("at most", self.at_most)
        number = f"{limit:,.12g}" if isinstance(limit, int | float) else str(limit)
        unit = self.unit if self.what in TIMES else "kW" if self.what == COMMITTED_POWER else ""
        return f"{sign} {number} {unit}".rstrip()


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
    minimum: float | None = None  # with which an offer is accepted
    points: float | None = None  # at the minimum; a score gets points x score / minimum


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
    must = tuple(read_item(values, f"{path}, requirement {number}", wanted) for number, values in enumerate(items, 1))
    refuse_twice(must, f"{path}: the requirement")
    reference = content.get("reference") or ""
    if not isinstance(reference, str | int):
        raise RecordError(f"{path}: reference is {reference!r}, but must be the name of a system")
    budget = _budget(content.get("budget") or {}, f"{path}, budget")
    score = _score(content["score"], f"{path}, score", wanted) if content.get("score") is not None else None
    found = Requirements(wanted, must, str(reference), budget, score)
    return for_machine(found, budget.devices) if budget.devices else found


def for_machine(requirements: Requirements, devices: int) -> Requirements:
    """Return requirements with a number of devices of the whole machine, where a machine time names none."""

    def complete(one: Any) -> Any:
        return replace(one, machine_devices=one.machine_devices or devices)

    score = requirements.score
    if score:
        score = replace(score, terms={name: complete(one) for name, one in score.terms.items()})
    return replace(requirements, must=tuple(map(complete, requirements.must)), score=score)


def refuse_twice(items: Sequence[Item], where: str) -> None:
    """Raise RecordError for an item that occurs twice."""
    twice = [str(one) for index, one in enumerate(items) if str(one) in map(str, items[:index])]
    if twice:
        raise RecordError(f"{where} '{twice[0]}' occurs twice")


def _selection(values: Any, where: str) -> Selection:
    if isinstance(values, Mapping) and "fixed" in values:
        values = {**values, "fixed": read_fixed(values["fixed"], where)}
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
    if entry.minimum is not None and not (entry.minimum and entry.better == "higher"):
        raise RecordError(f"{where}: a minimum must be greater than 0, and needs 'better: higher'")
    if entry.points and not entry.minimum:
        raise RecordError(f"{where}: points are those at the minimum: give 'minimum'")
    for name, quantity in terms.items():
        if quantity.what == "energy_grade":
            raise RecordError(f"{where}, term {name}: a grade is not a number")
    return entry


def read_item(values: Any, where: str, wanted: Mapping[str, Selection], kind: type[Item] = Item) -> Any:
    """Return a requirement; raises RecordError for missing or unknown keys and for invalid values."""
    entry: Item = _quantity(kind, values, where, wanted)
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
    for name in ("unit", "work"):
        if name in values and entry.what not in TIMES:
            raise RecordError(f"{where}: {name} is {values[name]!r}, but only a time_to_solution has one: leave it out")
    if entry.unit not in SECONDS:
        raise RecordError(f"{where}: unit is {entry.unit!r}, but must be one of {', '.join(SECONDS)}")
    for name in (
        *("devices", "global_batch", "from_devices", "work", "machine_devices"),
        *("power_limit_w", "clock_limit_mhz"),
    ):
        if getattr(entry, name) == 0:
            raise RecordError(f"{where}: {name} is 0, but must be greater than 0")
    if entry.what in LATENCIES and entry.global_batch is None:
        raise RecordError(f"{where}: a {entry.what} is of one load: give its requests in flight as 'global_batch'")
    facts = workloads()[wanted[entry.of].benchmark]
    if entry.work_unit not in ("", facts.work_unit):
        raise RecordError(f"{where}: work_unit is {entry.work_unit!r}, but {facts.title} counts {facts.work_unit}")
    entry = replace(entry, work_unit=facts.work_unit)
    if entry.what in TIMES and entry.work is None:
        if facts.reported is None:
            raise RecordError(f"{where}: a {entry.what.replace('_', ' ')} needs 'work', in {facts.work_unit}")
        entry = replace(entry, work=facts.reported.amount)
    if entry.is_trimmed and entry.of_runs <= entry.without_fastest + entry.without_slowest:
        raise RecordError(f"{where}: of_runs must be larger than the number of runs left out")
    return entry
