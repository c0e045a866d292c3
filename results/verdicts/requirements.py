"""Requirements that a buyer writes before the offers are opened: limits to meet, weights of the score, the budget."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from jpwr.messages import meant, near
from record.demand import SLOS
from record.findings import Finding, finding
from record.values import devices_text, value_at
from results.files.quantities import QUANTITIES
from results.files.typed_files import (
    FILLED,
    Above0,
    From0,
    From1,
    Name,
    NotNegative,
    Text,
    check_key,
    like,
    no_keys,
    one_of,
    read_file,
    reader,
    untyped,
)
from results.files.workloads import names, workloads
from results.find.records import Record, RecordError
from results.points.repeats import PointResults
from results.verdicts.formula import Formula
from results.verdicts.power_level import LEVELS
from results.verdicts.quality import GRADES

# Quantities that are numbers of records. More is better, or, as of power, the most of all points must meet the limit.
MEASURED = {one.required_as: one for one in QUANTITIES.values() if one.required_as}
STEPS = {"energy_grade": tuple(GRADES), "power_level": LEVELS}  # of an energy, the lowest first
AT_LEAST = (*(name for name, one in MEASURED.items() if one.better == "more"), "scaling_efficiency", *STEPS)
TO_LOSS = ("time_to_loss_s", "energy_to_loss_wh")  # of runs that were trained to a loss
LATENCIES = ("ttft_p99", "tpot_p99")  # of one load: any server is fast with one request in flight
TIMES = {  # for `work`, in `unit`, with the speeds that they follow from
    "time_to_solution": QUANTITIES["work_per_s"],
    "machine_time": QUANTITIES["work_per_s_per_device"],
}
WHATS = (*MEASURED, *TIMES, "scaling_efficiency", "failed_runs", *STEPS)
# Largest limits: with one of a share in percent, every or no value would pass. A latency above ten times the longest of
# MLPerf's limits is meant in milliseconds.
MOST = {"mfu": (1.0, "write 0.25 for 25 %"), "scaling_efficiency": (2.0, "write 0.25 for 25 %")} | {
    name: (10 * max(getattr(slo, f"{name[:4]}_s") for slo in SLOS.values()), "write it in seconds")
    for name in LATENCIES
}
Limit: Any = NotNegative | str  # a number, or a grade of energy
Unit = Literal["", "s", "min", "h", "days"]
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}
FACTS = ("model", "data", "sample", "precision")  # of runs, by which a workload selects them
# Facts that may be fixed, and their places in a record. An option is fixed by its group and name.
FIXED = {
    "model": "model",
    "num_layers": "config.model.num_layers",
    "hidden_size": "config.model.hidden_size",
    "num_heads": "config.model.num_heads",
    "vocab_size": "config.model.vocab_size",
    "sequence_length": "layout.sequence_length",
    "global_batch_size": "layout.global_batch_size",
    "data": "data",
    "sample": "sample",
    "precision": "precision",
    "commit": "provenance.git_commit",
}
OPTION = re.compile(r"\w+\.\w+")  # such as training.learning_rate
# Bits of a number in matrix products: fewer than those of the fixed precision are refused. TF32 has 19 (NVIDIA A100
# whitepaper).
BITS = {"fp4": 4, "nvfp4": 4, "fp8": 8, "mxfp8": 8, "fp16": 16, "bf16": 16, "tf32": 19, "fp32": 32, "fp64": 64}
KINDS: dict[str, Any] = {
    "precision": Annotated[str, one_of(BITS)],
    "commit": Annotated[str, like("[0-9a-f]{7,40}", "7 to 40 hexadecimal digits: write them in quotes")],
}
FACT: Any = Text | float | bool
DIRTY = "the code had local changes"


@dataclass(frozen=True)
class Selection:
    """A workload of the requirements: the runs that belong to it, what these must keep, and its weight in the score."""

    benchmark: Annotated[str, one_of(names())]
    model: Annotated[Name, "empty: any, as for data, sample and precision"] = ""
    data: Name = ""
    sample: Name = ""
    precision: Name = ""
    weight: NotNegative = 1.0
    filled: Annotated[bool, "only runs with the tag fill, whose copies fill the nodes; false: only others"] = False
    fixed: Annotated[Mapping[str, Any], "what a run must keep for it to count"] = no_keys()

    def check(self, where: str) -> None:
        """Read each fact as its name has it; raises RecordError for an unknown fact or a bad value of one."""
        for fact in self.fixed:
            if not OPTION.fullmatch(fact):
                check_key(fact, FIXED, f"{where}, fixed")
        read = {fact: reader(KINDS.get(fact, FACT))(self.fixed[fact], f"{where}, fixed", fact) for fact in self.fixed}
        object.__setattr__(self, "fixed", read)

    def has(self, one: PointResults) -> bool:
        """Return whether a point belongs to it. Facts that failed runs did not record are not compared."""
        known = [(getattr(self, name), _fact(one, name)) for name in FACTS]
        return self._is_of(one) and all(not wanted or value == wanted for wanted, value in known if value or one.good)

    def _is_of(self, one: PointResults) -> bool:
        # Several copies are no job on all their devices.
        return one.point.benchmark == self.benchmark and self.filled == bool(one.point.copies)

    def why_none(self, results: Iterable[PointResults]) -> Finding:
        """Return why no point belongs to it, with the value that may be meant instead of one that no run has."""
        points = [one for one in results if self._is_of(one)]
        for name in FACTS:
            wanted, known = getattr(self, name), sorted({_fact(one, name) for one in points} - {""})
            if wanted and known and wanted not in known:
                hint = meant(wanted, known) or f"they have {', '.join(known)}"
                return finding("unclear", why=f"no run has the {name} '{wanted}': {hint}")
        return finding("no_run", why="no run of this workload")

    def of(self, results: Iterable[PointResults]) -> list[PointResults]:
        """Return its points with the runs that count: those that keep what is fixed."""
        counting = []
        for one in filter(self.has, results):
            good, bad = ([run for run in runs if not self.broken(run)] for runs in (one.good, one.bad))
            if good or bad:
                counting.append(one._replace(good=good, bad=bad))
        return counting

    def broken(self, record: Record) -> dict[str, bool]:
        """Return the fixed facts that a run does not keep, as text: True if it changed one, False if they are unknown.

        Of a failed run, which recorded little, only those that it changed count.
        """
        broken = {}
        for name, wanted in self.fixed.items():
            found = value_at(record, FIXED.get(name, f"config.{name}"))
            rule = f"fixed at {wanted}{' or more bits' if name == 'precision' else ''}"
            if found in (None, "") or (name == "precision" and found not in BITS):
                broken[f"{name} is {found or 'not recorded'}, {rule}"] = False
            elif not _keeps(name, found, wanted):
                broken[f"{name} is {found}, {rule}"] = True
        if "commit" in self.fixed and (dirty := value_at(record, "provenance.git_dirty")) is not False:
            broken[DIRTY if dirty else f"whether {DIRTY} is not recorded"] = bool(dirty)
        return {words: is_changed for words, is_changed in broken.items() if is_changed or record.is_good}


def _keeps(name: str, found: Any, wanted: Any) -> bool:
    if name == "precision":
        return BITS[found] >= BITS[wanted]
    if name == "commit":
        return str(found).startswith(wanted)
    return bool(found == wanted or str(found).lower() == str(wanted).lower())  # quotes do not matter


def _fact(one: PointResults, name: str) -> str:
    return str(getattr(one if name == "precision" else one.point, name))


@dataclass(frozen=True)
class Quantity:
    """A quantity of a system, at a given point or at the system's best one."""

    of: Annotated[Name, "a workload of the file"]
    what: Annotated[str, one_of(WHATS)]
    devices: From1 | None = None
    global_batch: From1 | None = None
    from_devices: Annotated[From1 | None, "smaller number of a scaling efficiency; otherwise the fewest measured"] = (
        None
    )
    work: Annotated[Above0 | None, "of a time, in units of work; otherwise the workload's default"] = None
    work_unit: Annotated[str, "such as tokens, to guard against mistakes"] = ""
    unit: Annotated[Unit, "of a time; otherwise h"] = ""
    without_fastest: Annotated[From0, "number of a point's runs that the mean leaves out"] = 0
    without_slowest: From0 = 0
    of_runs: Annotated[From0, "number of runs that are needed"] = 0
    power_limit_w: Annotated[Above0 | None, "operating point; without it any"] = None
    clock_limit_mhz: Annotated[Above0 | None, "operating point; without it any"] = None
    within_limits: Annotated[bool, "at loads alone that keep the limits of TTFT and TPOT that their runs state"] = False

    def check(self, where: str) -> None:
        """Raise RecordError for values that do not go together."""
        for name in ("unit", "work"):
            if (value := getattr(self, name)) and self.what not in TIMES:
                raise RecordError(f"{where}: {name} is {value!r}, but only a time_to_solution has one: leave it out")
        if self.what in LATENCIES and self.global_batch is None:
            raise RecordError(f"{where}: a {self.what} is of one load: give its requests in flight as 'global_batch'")
        if 0 < self.without_fastest + self.without_slowest >= self.of_runs:
            raise RecordError(f"{where}: of_runs must be larger than the number of runs left out")

    @property
    def words(self) -> str:
        """Quantity with its devices, batch and limits, as text."""
        place = [devices_text(self.devices)] if self.devices else []
        place += [f"global batch {self.global_batch}"] if self.global_batch else []
        limits = [f"a power limit of {self.power_limit_w:g} W"] if self.power_limit_w else []
        limits += [f"a clock limit of {self.clock_limit_mhz:g} MHz"] if self.clock_limit_mhz else []
        return "".join(
            [
                self.what.replace("_", " "),
                f" of {self.work:,.12g} {self.work_unit}" if self.work else "",
                f" on {', '.join(place)}" if place else "",
                f" at {' and '.join(limits)}" if limits else "",
                " within the limits of TTFT and TPOT" if self.within_limits else "",
            ]
        )


@dataclass(frozen=True)
class Item(Quantity):
    """A requirement or a pledged number, with its limit."""

    name: str = ""
    at_least: Any = None
    at_most: Any = None

    def check(self, where: str) -> None:
        """Read the limit as its quantity has it; raises RecordError for values that do not go together."""
        super().check(where)
        if (self.at_least is None) == (self.at_most is None):
            raise RecordError(f"{where}: give either 'at_least' or 'at_most'")
        is_least = self.at_most is None
        name, limit = ("at_least", self.at_least) if is_least else ("at_most", self.at_most)
        # Where no limit is in thousands, the point of 1.500 separates decimals.
        limit = reader(Limit)(untyped(limit) if self.what in (*MOST, *STEPS) else limit, where, name)
        object.__setattr__(self, name, limit)
        if self.what in STEPS:
            if not is_least or limit not in STEPS[self.what]:
                steps = ", ".join(map(str, STEPS[self.what]))
                raise RecordError(f"{where}: {self.what} needs at_least with one of {steps}")
            return
        if is_least != (self.what in AT_LEAST):
            given, write, better = ("at_least", "at_most", "less") if is_least else ("at_most", "at_least", "more")
            raise RecordError(f"{where}: {self.what} has '{given}', but {better} is better: write '{write}: {limit}'")
        if isinstance(limit, str):
            raise RecordError(f"{where}: {limit!r} is not a number" + ": leave out its quotes" * limit[:1].isdigit())
        most, remedy = MOST.get(self.what, (math.inf, ""))
        if limit is not None and limit > most:
            raise RecordError(f"{where}: the limit {limit:g} of {self.what} is too large: {remedy}")

    def keeps(self, value: Any) -> bool:
        """Return whether a number keeps the limit, or a grade, which sorts by its name."""
        if value is None:
            return False
        return bool(value <= self.at_most if self.at_least is None else value >= self.at_least)

    def __str__(self) -> str:
        return self.name or f"{self.of}: {self.words} {self.limit_words}"

    @property
    def limit_words(self) -> str:
        """Limit that must be met, as text."""
        sign, limit = ("at least", self.at_least) if self.at_least is not None else ("at most", self.at_most)
        number = f"{limit:,.12g}" if isinstance(limit, int | float) else str(limit)
        unit = self.unit if self.what in TIMES else ""
        return f"{sign} {number} {unit}".rstrip()


@dataclass(frozen=True)
class Budget:
    """Budget that each system is scaled to."""

    devices: From1 | None = None
    money: Annotated[Above0 | None, "in the currency of the prices file"] = None
    power_kw: Annotated[Above0 | None, "at the supply"] = None

    @property
    def limits(self) -> list[str]:
        """The limits that it has, in words."""
        names = {"devices": self.devices, "money": self.money, "power": self.power_kw}
        return [name for name, limit in names.items() if limit]

    @property
    def title(self) -> str:
        """Text on how systems are made equal."""
        if not self.limits:
            return "per device, each at its best point"
        return f"at equal {self.limits[0]}" if len(self.limits) == 1 else "within the whole budget"


@dataclass(frozen=True)
class Score:
    """The buyer's formula, which replaces the weighted geometric mean."""

    formula: Annotated[str, "+ - * / **, min, max, sqrt and log of the terms, such as 3 / R"]
    terms: Mapping[str, Quantity]
    better: Literal["higher", "lower"]
    minimum: Annotated[Above0 | None, "with which an offer is accepted"] = None
    points: Annotated[NotNegative | None, "at the minimum; a score gets points x score / minimum"] = None

    @cached_property
    def value(self) -> Formula:
        """Formula of the terms."""
        return Formula(self.formula, tuple(self.terms), "score")

    def check(self, where: str) -> None:
        """Raise RecordError for values that do not go together."""
        Formula(self.formula, tuple(self.terms), where)
        if self.minimum is not None and self.better != "higher":
            raise RecordError(f"{where}: a minimum must be greater than 0, and needs 'better: higher'")
        if self.points and not self.minimum:
            raise RecordError(f"{where}: points are those at the minimum: give 'minimum'")
        for name, quantity in self.terms.items():
            if quantity.what in STEPS:
                raise RecordError(f"{where}, term {name}: {quantity.what} is not a number")


@dataclass(frozen=True)
class Requirements:
    """Content of a requirements file."""

    ADDED = ("machine_devices",)
    workloads: Annotated[Mapping[str, Selection], FILLED]
    must: tuple[Item, ...] = ()
    reference: Annotated[Name, "the system that has score 1; empty: the first"] = ""
    budget: Annotated[Budget, "that each system is scaled to"] = field(default_factory=Budget)
    score: Annotated[Score | None, "the buyer's formula, which replaces the weighted geometric mean"] = None
    machine_devices: int | None = None  # of the whole machine: those of the budget, else of the pledge


def read_requirements(path: Path) -> Requirements:
    """Read a requirements file; raises RecordError for missing or unknown keys and for invalid values."""
    found: Requirements = read_file(Requirements, path, "requirements")
    wanted, score = found.workloads, found.score
    must = [completed(one, wanted, f"{path}, requirement {number}") for number, one in enumerate(found.must, 1)]
    names = [str(item) for item in must]
    if twice := [name for name in names if names.count(name) > 1]:
        raise RecordError(f"{path}: the requirement '{twice[0]}' occurs twice")
    if score:
        terms = {name: completed(one, wanted, f"{path}, score, term {name}") for name, one in score.terms.items()}
        score = replace(score, terms=terms)
    return replace(found, must=tuple(must), score=score, machine_devices=found.budget.devices)


def completed(one: Any, wanted: Mapping[str, Selection], where: str) -> Any:
    """Return a quantity with the unit and amount of its workload; raises RecordError if it is of none of the file's."""
    if one.of not in wanted:
        raise RecordError(f"{where}: 'of' is {one.of!r}, but no workload of the file: {near(one.of, wanted)}")
    facts = workloads()[wanted[one.of].benchmark]
    if one.work_unit not in ("", facts.work_unit):
        raise RecordError(f"{where}: work_unit is {one.work_unit!r}, but {facts.title} counts {facts.work_unit}")
    one = replace(one, work_unit=facts.work_unit, unit=one.unit or "h")
    if one.what not in TIMES or one.work:
        return one
    if facts.reported is None:
        raise RecordError(f"{where}: a {one.what.replace('_', ' ')} needs 'work', in {facts.work_unit}")
    return replace(one, work=facts.reported.amount)
