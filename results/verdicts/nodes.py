"""Slow devices and nodes: each figure of a node check against the median of its group, and against a baseline."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

from jpwr.median import median_interval
from jpwr.process.device_ids import same_ids
from record.part import is_number
from results.find.records import Record
from results.join.clocks import REASONS
from results.points.estimate import Interval, Outcome

NODE_CHECK = "node_check"
MATMUL = "matmul_"  # prefix of a figure's name; the precision follows
THRESHOLD_PERCENT = 95.0
ALL_NODES = "all nodes"
BASELINE = "the baseline"
UNLIKE = 0.03  # relative difference of a number that is named
REPEATS = 3  # that are equal to the last digit in no two measurements
UNIQUE = {"uuid", "rank"}  # facts that are another for each device


class Subject(NamedTuple):
    """A device, a node, or all nodes together; `device` is an id or a number on the node, empty for the others."""

    system: str
    hostname: str
    device: str = ""

    def __str__(self) -> str:
        return f"{self.hostname}, device {self.device}" if self.device else self.hostname


class Kind(NamedTuple):
    """Figures that are compared with each other."""

    system: str
    name: str
    unit: str
    ranks: int
    bytes: int | None
    matrices: str  # of a product, their size


class NodeVerdict(NamedTuple):
    """One figure of one subject; without an outcome it is compared with nothing."""

    subject: Subject
    kind: Kind
    value: float | None
    interval: Interval | None
    reference: float | None
    against: str  # what the reference is
    outcome: Outcome | None
    reason: str = ""

    @property
    def percent(self) -> float | None:
        """The value in percent of the reference."""
        return 100 * self.value / self.reference if self.value is not None and self.reference else None


Runs = Sequence[Sequence[float]]  # repeats of a figure in each check of a subject
Rates = Mapping[Kind, Mapping[Subject, Runs]]


def is_check(record: Record) -> bool:
    """Return whether a record is a good node check."""
    return record.benchmark == NODE_CHECK and record.is_good and bool(record.node_check)


def rates_of(records: Sequence[Record]) -> Rates:
    """Return the rates of each subject in all good node checks, of links with the largest message alone.

    Products of matrices of different sizes are different figures.
    """
    found: dict[Kind, dict[Subject, list[Sequence[float]]]] = {}
    for record in filter(is_check, records):
        subjects = subjects_of(record)
        figures = record.node_check.figures
        largest = {one.name: one.bytes for one in sorted(figures, key=lambda one: one.bytes or 0)}
        for figure in figures:
            if figure.bytes != largest[figure.name] or not figure.values:
                continue
            subject = subjects[figure.rank]
            if figure.scope != "device":
                subject = Subject(subject.system, ALL_NODES if figure.scope == "all" else subject.hostname)
            size = int(figure.bytes) if figure.bytes else None
            matrices = record.model if figure.name.startswith(MATMUL) else ""
            kind = Kind(record.system, figure.name, figure.unit, figure.ranks, size, matrices)
            found.setdefault(kind, {}).setdefault(subject, []).append(figure.values)
    return found


def medians(records: Sequence[Record]) -> dict[Kind, float]:
    """Return the median of each figure over its devices or nodes, each with the median of its repeats."""
    return {kind: statistics.median(_middles(rates)) for kind, rates in rates_of(records).items()}


def _middles(rates: Mapping[Subject, Runs]) -> list[float]:
    return [statistics.median(chain.from_iterable(runs)) for runs in rates.values()]


def subjects_of(record: Record) -> dict[int, Subject]:
    """Return the device of each rank: the last of its ids, which is its address, or its number on the node."""
    found, numbers = {}, dict.fromkeys((device.hostname for device in record.devices), 0)
    for device in sorted(record.devices, key=lambda device: device.rank):
        host = device.hostname
        ids = (device.device_id or "").split() or [str(numbers[host])]
        found[device.rank] = Subject(record.system, host, ids[-1])
        numbers[host] += 1
    return found


def judge(records: Sequence[Record], baseline: Sequence[Record], threshold_percent: float) -> list[NodeVerdict]:
    """Return a verdict on each figure of each subject.

    FAILED: the whole 95 % interval is below the threshold's share of the group's median or of the baseline's. PASSED:
    the value is not below it. UNDECIDED: the value is below it and its interval is not, or there is no interval, or
    the subject lacks a figure that another one or the baseline has, was slow in one of its checks, has the repeats of
    another subject, or can be compared with its own node alone. A group of one has no median; that of an even number is
    the higher of the middle two, so that the slower of two is compared with the faster.
    """
    group, known, share = rates_of(records), medians(baseline), threshold_percent / 100
    found = []
    for kind, rates in group.items():
        middles = _middles(rates)
        of = f"the median of {len(middles)}" if len(middles) > 2 else "the faster of 2"
        references = [(statistics.median_high(middles), of)] if len(middles) > 1 else []
        references += [(known[kind], BASELINE)] if kind in known else []
        for subject, runs in sorted(rates.items()):
            verdict = _verdict(subject, kind, list(chain.from_iterable(runs)), references, share)
            if verdict.outcome is Outcome.PASSED and (why := _doubt(verdict, group, known, share)):
                verdict = verdict._replace(outcome=Outcome.UNDECIDED, reason=why)
            found.append(verdict)
    checks = list(filter(is_check, records))
    devices = {subject for record in checks for subject in subjects_of(record).values()}
    return [*found, *_lacking(checks, devices, group, known), *_with_fewer_devices(devices, group)]


def _verdict(
    subject: Subject, kind: Kind, values: Sequence[float], references: Sequence[tuple[float, str]], share: float
) -> NodeVerdict:
    value, (low, high) = statistics.median(values), median_interval(values)
    interval = None if low is None or high is None else Interval(low, high)
    if not references:
        return NodeVerdict(subject, kind, value, interval, None, "", None)
    reference, against = max(references)  # the stricter one
    outcome, reason = Outcome.PASSED, ""
    if value < share * reference:
        is_slow = interval is not None and interval.high < share * reference
        outcome = Outcome.FAILED if is_slow else Outcome.UNDECIDED
        reason = "" if is_slow else "its interval reaches the threshold: measure again, with more repeats"
    return NodeVerdict(subject, kind, value, interval, reference, against, outcome, reason)


def _doubt(verdict: NodeVerdict, group: Rates, known: Mapping[Kind, float], share: float) -> str:
    """Return why a figure that is not slow decides nothing; empty if it does."""
    subject, kind = verdict.subject, verdict.kind
    runs, others = group[kind][subject], {one: runs for one, runs in group[kind].items() if one != subject}
    long_runs = [sorted(run) for run in runs if len(run) >= REPEATS]
    if copied := next((one for one, theirs in others.items() if any(sorted(run) in long_runs for run in theirs)), None):
        return f"its repeats are those of {copied} to the last digit"
    slow = sum(statistics.median(run) < share * (verdict.reference or 0.0) for run in runs)
    if slow:
        return f"it was slow in {slow} of {len(runs)} checks: measure again"
    if subject.device and kind not in known and not any(one.hostname != subject.hostname for one in others):
        alike = [rates for other, rates in group.items() if other[:2] == kind[:2]]  # of another size
        if any(one.hostname != subject.hostname for rates in alike for one in rates):
            return f"no other node was checked with {kind.matrices or 'messages of this size'}"
    return ""


def _undecided(subject: Subject, kind: Kind, why: str) -> NodeVerdict:
    return NodeVerdict(subject, kind, None, None, None, "", Outcome.UNDECIDED, why)


def _lacking(
    checks: Sequence[Record], devices: Set[Subject], group: Rates, known: Mapping[Kind, float]
) -> Iterator[NodeVerdict]:
    """Yield a verdict on each device or node without a figure of a name that others or the baseline have."""
    nodes = {Subject(one.system, one.hostname) for one in devices}
    reasons = {
        (subjects[figure.rank], figure.name): f": {figure.reason}"
        for record, subjects in ((record, subjects_of(record)) for record in checks)
        for figure in record.node_check.figures
        if figure.reason
    }
    for system, name in dict.fromkeys(kind[:2] for kind in (*group, *known)):
        kinds = [kind for kind in (*group, *known) if kind[:2] == (system, name)]
        has = {subject for kind in kinds for subject in group.get(kind, ())}
        if any(one.hostname == ALL_NODES for one in has):
            continue
        is_of_nodes = any(not one.device for one in has) if has else kinds[0].ranks > 1
        why = f"it has none, and {'others have' if has else 'the baseline has'} one"
        for subject in sorted((nodes if is_of_nodes else devices) - has):
            if subject.system == system:
                yield _undecided(subject, kinds[0], why + reasons.get((subject, name), ""))


def _with_fewer_devices(devices: Set[Subject], group: Rates) -> Iterator[NodeVerdict]:
    """Yield a verdict on each node of which fewer devices were checked than of another one of its system."""
    numbers = Counter((one.system, one.hostname) for one in devices)
    kinds = {one.system: one for one in reversed([*group])}
    for (system, host), number in sorted(numbers.items()):
        most = max(count for (other, _), count in numbers.items() if other == system)
        if number < most and system in kinds:
            why = f"{number} of its devices were checked, {most} of another node's"
            yield _undecided(Subject(system, host), kinds[system], why)


def outcomes(verdicts: Sequence[NodeVerdict]) -> list[Outcome]:
    """Return the outcomes that decide the exit code: UNDECIDED if no device was compared with anything."""
    known = [one.outcome for one in verdicts if one.outcome]
    return known if any(one.outcome and one.subject.device for one in verdicts) else [*known, Outcome.UNDECIDED]


def differences(records: Sequence[Record]) -> dict[Subject, list[str]]:
    """Return in words what each device has that most devices of its system do not: clock, temperature, limits, links.

    A number differs if it is UNLIKE the median; a text differs from the one that more than half of the devices have.
    Of two devices, each is compared with the other.
    """
    facts: dict[Subject, dict[str, Any]] = {}
    for record in filter(is_check, records):
        for subject, own in _facts(record):
            facts.setdefault(subject, {}).update(own)
    found: dict[Subject, list[str]] = {subject: [] for subject in facts}
    for system, name in dict.fromkeys((subject.system, name) for subject, own in facts.items() for name in own):
        known = {one: own[name] for one, own in facts.items() if one.system == system and name in own}
        values, is_numeric = list(known.values()), all(map(is_number, known.values()))
        middle = statistics.median(values) if is_numeric else statistics.mode(values)
        if not is_numeric and 2 * values.count(middle) <= len(values) != 2:
            continue
        others = values[::-1] if len(values) == 2 else [middle] * len(values)
        for (subject, value), usual in zip(known.items(), others, strict=True):
            if abs(value - usual) > UNLIKE * abs(usual) if is_numeric else value != usual:
                texts = [f"{one:.4g}" if is_numeric else str(one) for one in (value, usual)]
                found[subject].append(f"{name.replace('_', ' ')} {texts[0]} (others: {texts[1]})")
    return found


def _facts(record: Record) -> Iterator[tuple[Subject, dict[str, Any]]]:
    """Yield the facts on each device, from the kernel, the vendor's tool, and the sampler in the measured window."""
    checked = {one.rank: vars(one) for one in record.node_check.devices}
    subjects = subjects_of(record)
    for device in record.devices:
        ids = set(same_ids(device.device_id or ""))
        own = dict(checked.get(device.rank, {}))
        for one in record.reported_devices:
            own |= one if ids & set(same_ids(str(one.get("uuid", "")))) else {}
        for channel in record.sensor_channels:
            if ids & set(same_ids(channel.device_id or "")):
                shares = channel.clocks.throttled or {}
                own |= vars(channel.clocks) | {"power_limit_w": channel.limits.power_limit_w}
                own |= {f"percent throttled by {reason}": shares.get(reason, 0.0) for reason in REASONS.values()}
        known = {name: value for name, value in own.items() if isinstance(value, str | int | float)}
        yield subjects[device.rank], {name: value for name, value in known.items() if name not in UNIQUE}
