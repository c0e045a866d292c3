"""A tender: what a vendor pledges for acceptance, and the assessment of results by requirements and pledge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from record.findings import finding
from record.part import Allowed
from record.values import devices_text, grouped
from results.exchange.signature import signer_of
from results.files.typed_files import PLAIN, Above0, Date, From1, Text, check_key, filled, read_file, reader
from results.find.records import RecordError, Skipped
from results.points.estimate import Outcome
from results.points.repeats import PointResults
from results.verdicts.accept import Verdict, accept, judged, left_out, missing_runs, unless_missing, verdict_on
from results.verdicts.cost import Costs
from results.verdicts.measures import Answer, check_alike
from results.verdicts.quality import grade
from results.verdicts.requirements import (
    AT_LEAST,
    MEASURED,
    Item,
    Requirements,
    Selection,
    completed,
)
from results.verdicts.score import Ranked, ranking_of

PURPOSE = "caraml-pledge"  # OpenSSH's namespace: the signature of an archive is none of a pledge
NOT_TOGETHER = "runs with different setups keep the figures of this point, and none of them keeps all"
TIME = "time_to_solution"
PLEDGED = (*MEASURED, TIME)
OF_TIME = ("work", "unit")
POINT = ("devices", "global_batch", "power_limit_w", "clock_limit_mhz")
PLACE = ("of", *POINT, "work_unit", *OF_TIME)
TAG = Allowed("a tag in plain letters", lambda tag: tag and PLAIN.test(tag))


@dataclass(frozen=True)
class Pledge:
    """Content of a pledge file."""

    ADDED = ("items", "signature")
    vendor: Text
    date: Date
    system: Annotated[str, TAG, "of the runs"]
    devices: Annotated[From1, "of the whole machine"]
    points: Annotated[tuple[Mapping[str, Any], ...], Allowed("a list that is not empty", bool)]
    items: tuple[Item, ...] = ()  # numbers of the points
    signature: str = ""  # who signed, in words

    @property
    def title(self) -> str:
        """Text that identifies the pledge."""
        return f"{self.vendor}, {self.date}, {self.system} of {devices_text(self.devices)}"


def read_pledge(path: Path, workloads: Mapping[str, Selection], signers: Path | None = None) -> Pledge:
    """Read a pledge on the workloads of some requirements, and check its signature FILE.sig by the allowed signers.

    Raises RecordError for missing or unknown keys, for invalid values, and unless an allowed signer signed the file.
    """
    pledge: Pledge = read_file(Pledge, path, "a pledge")
    points = enumerate(pledge.points, 1)
    items = [item for number, point in points for item in _items(point, f"{path}, point {number}", workloads)]
    if (most := max(item.devices or 0 for item in items)) > pledge.devices:
        raise RecordError(f"{path}: a point is on {most} devices, but the whole machine has {pledge.devices}")
    return replace(pledge, items=tuple(items), signature=_signed(path, signers))


def _items(point: Mapping[str, Any], where: str, workloads: Mapping[str, Selection]) -> Iterator[Item]:
    """Yield the pledged numbers of one point; raises RecordError for a mistake in it."""
    for key in point:
        check_key(key, (*PLACE, *PLEDGED), where)
    if not point.keys() & set(PLEDGED):
        raise RecordError(f"{where} lacks a number: give one or more of {', '.join(PLEDGED)}")
    if point.get("devices") is None:
        raise RecordError(f"{where} lacks 'devices'")
    for name in PLEDGED:
        if name in point:
            limit = reader(Above0)(point[name], where, name)
            left_out = OF_TIME if name != TIME and TIME in point else ()
            place = {key: point[key] for key in PLACE if key in point and key not in left_out}
            values = place | {"what": name, "at_least" if name in AT_LEAST else "at_most": limit}
            yield completed(filled(Item, values, where), workloads, where)


def _signed(path: Path, signers: Path | None) -> str:
    signature = path.with_name(f"{path.name}.sig")
    is_signed = signature.is_file()
    if signers is None:
        return "signed, but the signer was not checked" if is_signed else "not signed: its author is not known"
    if not is_signed:
        raise RecordError(f"{path} is not signed: {signature} does not exist")
    return f"signed by {signer_of(path.read_bytes(), signature.read_bytes(), signers, PURPOSE)}"


def check_pledge(
    results: Sequence[PointResults], requirements: Requirements, pledge: Pledge, skipped: Sequence[Skipped] = ()
) -> list[Verdict]:
    """Return the verdict on each pledged number: passed if it is demonstrated by runs at its point.

    Nothing is projected from other points. Raises RecordError if there is no run of the system.
    """
    systems = dict.fromkeys(one.system for one in results)
    if pledge.system not in systems and not missing_runs(skipped, pledge.system):
        raise RecordError(f"the pledge is for {pledge.system}, but the runs are of {', '.join(systems)}")
    check_alike(results, requirements.workloads)
    found = []
    for item in pledge.items:
        verdict = verdict_on(item, pledge.system, results, requirements, skipped)
        is_of_machine = requirements.workloads[item.of].filled and item.what.startswith("power")
        best = verdict.answer.best
        if is_of_machine and verdict.outcome is Outcome.PASSED and best and grade(best.any) == "Q1":
            # Sensors of the devices alone cannot show that a machine keeps its power.
            verdict = verdict._replace(
                outcome=Outcome.UNDECIDED, reasons=(finding("no_energy", why="the power is of the devices alone"),)
            )
        found.append(verdict)
    by_point = grouped(found, lambda verdict: tuple(getattr(verdict.item, name) for name in ("of", *POINT)))
    return [verdict for alike in by_point.values() for verdict in _together(alike, results, requirements)]


def _together(figures: Sequence[Verdict], results: Sequence[PointResults], requirements: Requirements) -> list[Verdict]:
    """Return the verdicts on one pledged point, whose figures are kept only if runs with one setup keep them all.

    Otherwise one power limit could give the speed, and another one the work per energy.
    """
    kept = [one for one in figures if one.outcome is Outcome.PASSED]

    def keeps_all(one: PointResults) -> bool:
        alone = (verdict_on(each.item, each.system, [one], requirements) for each in kept)
        return all(verdict.outcome is Outcome.PASSED for verdict in alone)

    if any(map(keeps_all, results)):
        return list(figures)
    why = (finding("other_setups", why=NOT_TOGETHER),)
    return [one._replace(outcome=Outcome.UNDECIDED, reasons=why) if one in kept else one for one in figures]


class Decision:
    """Assessment of results against requirements, and against a pledge if there is one.

    Raises RecordError if the results do not fit the requirements, or lack the pledge's system.
    """

    def __init__(
        self,
        results: Sequence[PointResults],
        requirements: Requirements,
        costs: Costs | None = None,
        skipped: Sequence[Skipped] = (),
        pledge: Pledge | None = None,
    ) -> None:
        if pledge:
            requirements = replace(requirements, machine_devices=requirements.machine_devices or pledge.devices)
        self.requirements, self.pledge = requirements, pledge
        self._results, self._costs = results, costs
        self.must = accept(results, requirements, skipped)  # on all systems
        self.pledged = check_pledge(results, requirements, pledge, skipped) if pledge else []
        self.left_out = left_out(results, requirements)  # a sentence on each run that does not count
        mine = [point for point in results if not pledge or point.system == pledge.system]
        self.scores = list(self._scores(mine, skipped))  # by a formula with a minimum
        self.judged = [verdict for verdict in self.must if not pledge or verdict.system == pledge.system]
        # They decide the exit code.
        self.outcomes = [verdict.outcome for verdict in (*self.judged, *self.pledged, *self.scores)]

    @cached_property
    def ranked(self) -> Ranked:
        """The ranking of all systems; raises RecordError if the requirements ask for none of these results."""
        return ranking_of(self._results, self.requirements, self._costs, self.must)

    @property
    def failed(self) -> set[str]:
        """Systems that fail a requirement."""
        return {verdict.system for verdict in self.must if verdict.outcome is Outcome.FAILED}

    def of_system(self, system: str) -> list[Verdict]:
        """Return the verdicts on one system, on its score as well."""
        return [verdict for verdict in (*self.must, *self.scores) if verdict.system == system]

    @property
    def without_figure(self) -> list[str]:
        """Sentences on the workloads that the pledge has no figure for."""
        pledged = {item.of for item in self.pledge.items} if self.pledge else set(self.requirements.workloads)
        without = [name for name in self.requirements.workloads if name not in pledged]
        return [f"the pledge has no figure for the workload {name}: ask the vendor for one" for name in without]

    def _scores(self, results: Sequence[PointResults], skipped: Sequence[Skipped]) -> Iterator[Verdict]:
        """Yield the verdict on the score of each system; none unless the formula has a minimum."""
        score = self.requirements.score
        if not (results and score and (minimum := score.minimum)):
            return
        item = Item(of="", what="score", name=f"score at least {minimum:g}", at_least=minimum)
        for row in ranking_of(results, replace(self.requirements, reference=""), None, self.must).scores:
            award = score.points * row.value / minimum if score.points and row.value is not None else None
            why_not = finding("unclear", why=row.why_not) if row.why_not else None
            answer = Answer(row.value, row.interval, why_not=why_not, award=award)
            yield unless_missing(judged(item, row.system, answer), skipped)
