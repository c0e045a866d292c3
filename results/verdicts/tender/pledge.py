"""Pledge of a vendor: figures that its system must demonstrate at acceptance, and its committed power."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from record.findings import Finding, finding
from record.values import THROUGHPUT, devices_text, grouped, value_at
from results.exchange.signature import signer_of
from results.files.typed_files import (
    NAME,
    Above0,
    From1,
    Text,
    check_key,
    filled,
    read_file,
    value_as,
)
from results.find.records import RecordError, Skipped
from results.points.estimate import Estimate, Part
from results.points.operating import limits_of
from results.points.repeats import PointResults
from results.points.sensors import accuracy_error, sampling_error
from results.verdicts.accept import Verdict, judged, missing_runs, verdict_on, with_missing
from results.verdicts.measures import Answer, check_alike, part_filled, points_of
from results.verdicts.outcome import Outcome
from results.verdicts.quality import deviations, grade, why_not_ranked, window_too_short
from results.verdicts.requirements import (
    COMMITTED_POWER,
    LESS_IS_BETTER,
    LONGEST_S,
    MEASURED,
    MOST_OF_SHARES,
    SECONDS,
    Item,
    Requirements,
    Selection,
    completed,
)

PURPOSE = "caraml-pledge"  # OpenSSH's namespace: the signature of an archive is none of a pledge
TIME = "time_to_solution"
PLEDGED = (*MEASURED, TIME)
AT_MOST = (TIME, "power", *LESS_IS_BETTER)  # the others are pledged as least values
OF_TIME = ("work", "unit")
POINT = ("devices", "global_batch", "power_limit_w", "clock_limit_mhz")
PLACE = ("of", *POINT, "work_unit", "projected", *OF_TIME)
# Power of a device with its share of the machine, in kW: a figure in W or MW is outside by far.
LEAST_KW, MOST_KW = 0.001, 10.0


@dataclass(frozen=True)
class PledgedItem(Item):
    """One pledged number."""

    projected: Annotated[bool, "in the offer, and not measured"] = False
    WORDS: ClassVar[Mapping[str, str]] = {"passed": "kept", "failed": "not kept"}


@dataclass(frozen=True)
class Pledge:
    """Content of a pledge file."""

    ADDED = ("items", "signature")
    vendor: Text
    date: Annotated[str, {"format": "date"}]
    system: Annotated[Text, "system tag of the runs", {"format": NAME}]
    devices: Annotated[From1, "of the whole machine"]
    points: Annotated[
        tuple[Mapping[str, Any], ...], {"minItems": 1, "examples": [[{"of": "gpt", "devices": 8, "throughput": 70000}]]}
    ]
    power_kw: Annotated[Above0 | None, "committed, of the whole machine while copies of a workload fill it"] = None
    items: tuple[PledgedItem, ...] = ()  # numbers of the points
    signature: str = ""  # who signed, in words

    @property
    def title(self) -> str:
        """Text that identifies the pledge."""
        return f"{self.vendor}, {self.date}, {self.system} of {devices_text(self.devices)}"

    def check(self, where: str) -> None:
        """Raise RecordError for values that do not go together."""
        if self.power_kw is not None and not LEAST_KW <= self.power_kw / self.devices <= MOST_KW:
            found = f"power_kw is {self.power_kw:g}, which is {self.power_kw / self.devices:.3g} kW per device"
            raise RecordError(f"{where}: {found}: write that of the machine, in kW")


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


def _items(point: Mapping[str, Any], where: str, workloads: Mapping[str, Selection]) -> Iterator[PledgedItem]:
    """Yield the pledged numbers of one point; raises RecordError for a mistake in it."""
    for key in point:
        check_key(key, (*PLACE, *PLEDGED), where)
    if not point.keys() & set(PLEDGED):
        raise RecordError(f"{where} lacks a number: give one or more of {', '.join(PLEDGED)}")
    if point.get("devices") is None:
        raise RecordError(f"{where} lacks 'devices'")
    for name in PLEDGED:
        if name in point:
            most = (MOST_OF_SHARES | LONGEST_S).get(name)
            kind = Annotated[Above0, {"maximum": most}] if most else Above0
            limit = value_as(kind, point[name], where, name)
            place = {key: point[key] for key in PLACE if key in point}
            if name != TIME and TIME in point:
                place = {key: value for key, value in place.items() if key not in OF_TIME}
            values = place | {"what": name, "at_most" if name in AT_MOST else "at_least": limit}
            yield completed(filled(PledgedItem, values, where), workloads, where)


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
        if item.projected and verdict.answer.why_not and not verdict.answer.is_failure:
            verdict = verdict._replace(reasons=(finding("projection", reasons=verdict.reasons),))
        found.append(verdict)
    found = [verdict for one in grouped(found, _place).values() for verdict in _together(one, results, requirements)]
    if pledge.power_kw is not None:
        found.append(with_missing(_power(results, requirements, pledge, found), skipped))
    return found


def _place(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.item.of, *(getattr(verdict.item, name) for name in POINT)


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
    return [
        one._replace(outcome=Outcome.UNDECIDED, reasons=(finding("not_together"),))
        if one.outcome is Outcome.PASSED
        else one
        for one in figures
    ]


def _power(
    results: Sequence[PointResults], requirements: Requirements, pledge: Pledge, figures: Sequence[Verdict]
) -> Verdict:
    """Return the verdict on the committed power: the worst of all runs that filled the machine.

    One of them must be of copies of a pledged point, at its speed and limits: other work may take less power.
    """
    item = PledgedItem("machine", COMMITTED_POWER, pledge.devices, at_most=pledge.power_kw)
    points = [
        one
        for wanted in requirements.workloads.values()
        for one in points_of(results, pledge.system, replace(wanted, filled=True))
    ]
    whole = [one for one in points if one.point.devices >= pledge.devices]
    runs = list({record: one._replace(good=[record], bad=[]) for one in whole for record in one.good}.values())
    if not runs:
        largest = max((one.point.devices for one in points), default=0)
        why = part_filled(largest, pledge.devices) if largest else finding("not_filled")
        return judged(
            item, pledge.system, Answer(why_not=finding("fills_failed") if whole else why, is_failure=bool(whole))
        )
    severity = (Outcome.PASSED, Outcome.UNDECIDED, Outcome.FAILED)
    verdicts = [_power_of(run, item, pledge.system) for run in runs]
    worst = max(verdicts, key=lambda one: (severity.index(one.outcome), one.answer.estimate or (0.0,)))
    if worst.outcome is not Outcome.PASSED:
        return worst
    places = grouped(figures, _place).values()
    reasons = [[_why_not_of(run, of_place, requirements) for of_place in places] for run in runs]
    if any(None in of_run for of_run in reasons):
        return worst
    every = tuple(dict.fromkeys(reason for of_run in reasons for reason in of_run if reason))
    return worst._replace(outcome=Outcome.UNDECIDED, reasons=(finding("not_as_pledged", reasons=every),))


def _why_not_of(run: PointResults, figures: Sequence[Verdict], requirements: Requirements) -> Finding | None:
    """Return why a run is not of a pledged point at its speed and limits, as it was demonstrated; None if it is.

    A copy has the pledged point, or the whole machine, where the workload is measured on filled machines alone.
    """
    [record] = run.good
    item, fill = figures[0].item, record.fill
    best = next((each.answer.best for each in figures if each.answer.best), None)
    assert fill
    if best is None:
        return finding("not_shown", pledged=str(item))
    parts = 1 if requirements.workloads[item.of].filled else fill.copies
    ours, theirs = _work_words(run, parts), _work_words(best, 1)
    if ours != theirs:
        return finding("copies_of_other", found=ours, pledged=theirs)
    # Without a pledged throughput, the lower end of what was demonstrated.
    shown = best.estimate(THROUGHPUT)
    low = shown.interval.low if shown and shown.interval else best.value(THROUGHPUT) or 0.0
    least = max((speed for each in figures if (speed := speed_of(each.item))), default=low)
    rate = (value_at(record, THROUGHPUT) or 0.0) / parts
    return finding("copies_slow", rate=rate, pledged=least) if rate < least else None


def _work_words(one: PointResults, parts: int) -> str:
    """Return what runs on each of so many parts of a point's devices, with its limits, as text."""
    point = one.point
    place = f"{devices_text(point.devices // parts)}, batch {point.global_batch // parts}, {limits_of(one.any)}"
    return ", ".join((point.benchmark, point.model, point.data, point.sample, one.precision, place))


def speed_of(item: Item) -> float | None:
    """Return the throughput of a pledged speed or time, in units of work per second; None for another figure."""
    limit, devices = float(item.at_least or item.at_most or math.nan), item.devices or 1
    of_time = (item.work or math.nan) / SECONDS[item.unit] / limit
    return {"throughput": limit, "throughput_per_device": limit * devices, TIME: of_time}.get(item.what)


def _power_of(one: PointResults, item: Item, system: str) -> Verdict:
    """Return the verdict on the power of one run; sensors of the devices alone cannot show that it is kept."""
    [record] = one.good
    power_w = value_at(record, "energy.avg_power_w")
    if why := why_not_ranked(one) or window_too_short(one) or (None if power_w else finding("not_known")):
        return judged(item, system, Answer(why_not=finding("power_left_out", reasons=(why,))))
    estimate = Estimate(power_w / 1000, (Part(sampling_error(record)), Part(accuracy_error(record))))
    limits, doubts = limits_of(record), tuple(deviations(one))
    at = f"{one.point.copies} copies at once" + (f", limits {limits}" if any(limits) else "")
    verdict = judged(item, system, Answer(estimate, unit="kW", at=at, doubts=doubts))
    if grade(record) == "Q1" and verdict.outcome is Outcome.PASSED:
        return verdict._replace(outcome=Outcome.UNDECIDED, reasons=(finding("devices_alone"),))
    return verdict
