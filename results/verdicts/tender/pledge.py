"""Pledge of a vendor: figures that its system must demonstrate at acceptance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from record.findings import finding
from record.part import Allowed
from record.values import devices_text, grouped
from results.exchange.signature import signer_of
from results.files.typed_files import Above0, Date, From1, Name, Text, check_key, filled, read_file, reader
from results.find.records import RecordError, Skipped
from results.points.repeats import PointResults
from results.verdicts.accept import Verdict, missing_runs, verdict_on
from results.verdicts.measures import check_alike
from results.verdicts.outcome import Outcome
from results.verdicts.quality import grade
from results.verdicts.requirements import (
    AT_LEAST,
    MEASURED,
    Item,
    Requirements,
    Selection,
    completed,
)

PURPOSE = "caraml-pledge"  # OpenSSH's namespace: the signature of an archive is none of a pledge
NOT_TOGETHER = "runs with different setups keep the figures of this point, and none of them keeps all"
TIME = "time_to_solution"
PLEDGED = (*MEASURED, TIME)
OF_TIME = ("work", "unit")
POINT = ("devices", "global_batch", "power_limit_w", "clock_limit_mhz")
PLACE = ("of", *POINT, "work_unit", *OF_TIME)


@dataclass(frozen=True)
class Pledge:
    """Content of a pledge file."""

    ADDED = ("items", "signature")
    vendor: Text
    date: Date
    system: Annotated[Name, "system tag of the runs"]
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
