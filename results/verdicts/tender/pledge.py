"""Pledge of a vendor: figures that its system must demonstrate at acceptance, and its committed power."""

from __future__ import annotations

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
    refuse_twice,
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
    points: Annotated[tuple[Mapping[str, Any], ...], {"minItems": 1}]
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
    refuse_twice(items, f"{path}: the pledge")
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
    runs = {record: one._replace(good=[record], bad=[]) for one in points for record in one.good}
    whole = [one for one in runs.values() if one.point.devices >= pledge.devices]
    if not whole:
        largest = max((one.point.devices for one in points), default=0)
        why = part_filled(largest, pledge.devices) if largest else finding("not_filled")
        has_failed = largest >= pledge.devices
        failed = finding("fills_failed")
        return judged(item, pledge.system, Answer(why_not=failed if has_failed else why, is_failure=has_failed))
    severity = (Outcome.PASSED, Outcome.UNDECIDED, Outcome.FAILED)
    verdicts = [_power_of(one, item, pledge.system) for one in whole]
    worst = max(verdicts, key=lambda one: (severity.index(one.outcome), one.answer.estimate or (0.0,)))
    if worst.outcome is not Outcome.PASSED:
        return worst
    places = grouped(figures, _place).values()
    reasons = [[_why_not_of(one, mine, requirements) for mine in places] for one in whole]
    if any(None in of_run for of_run in reasons):
        return worst
    apart = tuple(dict.fromkeys(reason for of_run in reasons for reason in of_run if reason))
    return worst._replace(outcome=Outcome.UNDECIDED, reasons=(finding("not_as_pledged", reasons=apart),))


def _why_not_of(one: PointResults, figures: Sequence[Verdict], requirements: Requirements) -> Finding | None:
    """Return why a run is not of a pledged point at its speed and limits, as it was demonstrated; None if it is.

    A copy has the pledged point, or the whole machine, where the workload is measured on filled machines alone.
    """
    [record] = one.good
    item, wanted, fill = figures[0].item, requirements.workloads[figures[0].item.of], record.fill
    best = next((each.answer.best for each in figures if each.answer.best), None)
    assert fill
    if best is None:
        return finding("not_shown", pledged=str(item))
    ours, theirs = (
        ", ".join((each.point.model, each.point.data, each.point.sample, each.precision)) for each in (one, best)
    )
    if ours != theirs or not replace(wanted, filled=True).has(one):
        return finding("copies_of_other", found=ours, pledged=theirs)
    parts = 1 if wanted.filled else fill.copies
    devices, batch = one.point.devices // parts, one.point.global_batch // parts
    if (devices, batch) != (best.point.devices, best.point.global_batch):
        pledged = f"{best.point.devices} devices, batch {best.point.global_batch}"
        return finding("copies_elsewhere", found=f"{devices} devices, batch {batch}", pledged=pledged)
    rate, least = (value_at(record, THROUGHPUT) or 0.0) / parts, _least_rate(figures, best)
    if rate < least:
        return finding("copies_slow", rate=rate, pledged=least)
    limits = [limits_of(run) for run in (record, best.any)]
    return None if limits[0] == limits[1] else finding("copies_limited", found=str(limits[0]), pledged=str(limits[1]))


def _least_rate(figures: Sequence[Verdict], best: PointResults) -> float:
    """Return the pledged throughput of a point; without one, the lower end of what was demonstrated."""
    rates = [
        {
            "throughput": each.item.at_least,
            "throughput_per_device": (each.item.devices or 0) * float(each.item.at_least or 0.0),
            TIME: _rate_for(each.item),
        }.get(each.item.what)
        for each in figures
    ]
    pledged = [float(rate) for rate in rates if rate]
    shown = best.estimate(THROUGHPUT)
    low = shown.interval.low if shown and shown.interval else best.value(THROUGHPUT)
    return max(pledged, default=low or 0.0)


def _rate_for(item: Item) -> float | None:
    """Return the throughput with which the work of a pledged time is done in that time; None for another number."""
    if item.what != TIME or item.work is None or not isinstance(item.at_most, int | float):
        return None
    return item.work / (item.at_most * SECONDS[item.unit])


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
