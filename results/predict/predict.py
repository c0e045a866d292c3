"""Predict throughput, power and work per energy of a system at an unmeasured point, from its own points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

from results.points.estimate import Interval, students_t
from results.points.operating import limits_of
from results.points.repeats import Point, PointResults, variant_of
from results.points.setups import Setup, differences, platform_of
from results.predict.curve import Curve, Input, Measured
from results.predict.leave_out import LEVELS, LeftOut, distance, disturbed, half_interval, left_out
from results.record.parts import JOULES_PER_WH
from results.record.records import Record, RecordError
from results.record.values import EFFECTIVE, THROUGHPUT, devices_text, grouped
from results.reference.published import throughputs
from results.verdicts.quality import energy_kind, why_not_ranked

FEWEST_POINTS = 3  # of a system, so that at least one can be left out
# Workloads with published sweeps over batches and devices.
PUBLISHED_SWEEPS = (("llm_training", "800M"), ("resnet50", "ResNet-50"))


class PredictionError(RecordError):
    """The measurements do not allow the prediction; the message is one sentence with what to do."""


class Prediction(NamedTuple):
    """Prediction of one point.

    Throughput is that of all devices, in units of work per second. Intervals have 95 % confidence.
    """

    system: str
    point: Point
    variant: tuple[str, ...]
    precision: str
    level: str
    distance: str  # from the measured points
    unit: str
    per_s: float
    per_s_interval: Interval
    power_w: float | None  # per device
    per_wh: float | None
    per_wh_interval: Interval | None
    energy_kind: str  # of the power; empty without one
    effective_per_s: float | None = None  # including the input path
    effective_interval: Interval | None = None


class Group:
    """The good points of one system with the same model, data, precision, options and software."""

    def __init__(self, results: Sequence[PointResults], variant: tuple[str, ...]) -> None:
        self.results = list(results)
        self.variant = tuple(one for one in variant if one != results[0].precision)  # reported separately
        self.first = results[0]
        self.points = [
            Measured(one.point.devices, one.point.global_batch, value)
            for one in results
            if (value := one.value(THROUGHPUT))
        ]

    def __str__(self) -> str:
        """Return the group's system, model, precision, data, sample and options, as text."""
        point = self.first.point
        words = [self.first.system, point.model, self.first.precision, point.data, point.sample, *self.variant]
        return ", ".join(filter(None, words))

    @cached_property
    def errors(self) -> list[LeftOut]:
        """Errors of the group's points, each predicted from the other points."""
        return left_out(self.points)

    @cached_property
    def _curve(self) -> Curve:
        return Curve(self.points)

    def predict(self, devices: int, batch: int) -> Prediction:
        """Predict a point; raises PredictionError if the measurements are not enough."""
        if devices < 1 or batch < 1:
            raise PredictionError(f"{devices_text(devices)} and batch {batch} were asked for: both must be at least 1")
        if len(self.points) < FEWEST_POINTS:
            raise PredictionError(
                f"{self} has {len(self.points)} good points, but a prediction needs {FEWEST_POINTS}: measure at least "
                "its smallest and its largest batch and one between them"
            )
        most = max(one.devices for one in self.points)
        if devices > most and self._shares_cores:
            raise PredictionError(
                f"{self}: {devices_text(devices)} were asked for, but they are processes that share the cores of "
                f"one node: ask for at most {most}, or measure on two nodes"
            )
        try:
            far = distance(self.points, devices, batch)
        except ValueError as error:
            raise PredictionError(f"{self}: {error}: measure nearer to it") from error
        per_s = self._curve.per_s(devices, batch)
        half = self.half(far)
        power_w, power_half, kind = self._power(per_s / devices)
        per_wh = work_per_wh(per_s, power_w * devices) if power_w else None
        return Prediction(
            self.first.system,
            self.first.point._replace(devices=devices, global_batch=batch),
            self.variant,
            self.first.precision,
            LEVELS[far],
            far,
            self.first.any.work_unit,
            per_s,
            around(per_s, half),
            power_w,
            per_wh,
            around(per_wh, math.hypot(half, power_half)) if per_wh else None,
            kind,
            *self._effective(devices, batch, half),
        )

    @cached_property
    def _shares_cores(self) -> bool:
        """Whether the devices are processes on the processors of a single node."""
        runs = [record.devices for one in self.results for record in one.good]
        are_processes = any(str(device.name).startswith("CPU") for run in runs for device in run)
        return are_processes and all(len({device.hostname for device in run}) <= 1 for run in runs)

    def half(self, far: str) -> float:
        """Return the half-width of the interval, as a logarithm, from the group's errors.

        Adds published errors if these are too few.
        """
        own = [one.error for one in self.errors if one.distance == far]
        half = half_interval(own)
        return half if half < math.inf else half_interval([*own, *published_errors(far, self.first.system)])

    def _effective(self, devices: int, batch: int, half: float) -> tuple[float | None, Interval | None]:
        """Return the effective throughput, and its interval from the errors of computing and of reading."""
        if self._input is None:
            return None, None
        reading, own_half = self._input
        value = reading.per_s(devices, batch)
        return value, around(value, math.hypot(half, own_half))

    @cached_property
    def _input(self) -> tuple[Input, float] | None:
        """Return the input path, and the half-width of a point's interval, as a logarithm; None for too few points."""
        points = [
            Measured(one.point.devices, one.point.global_batch, value)
            for one in self.results
            if (value := one.value(EFFECTIVE))
        ]
        if len(points) < FEWEST_POINTS:
            return None
        errors = []
        for one in points:
            others = Input(self._curve, [other for other in points if other is not one])
            errors.append(math.log(others.per_s(one.devices, one.batch) / one.per_s))
        return Input(self._curve, points), _students_half(errors)

    def _power(self, per_s: float) -> tuple[float | None, float, str]:
        """Return a device's power at its throughput, the interval's half-width as a logarithm, and the kind."""
        kinds = {energy_kind(one.any) for one in self.results}
        if len(kinds) != 1 or self._watts is None:
            return None, 0.0, ""
        return self._watts.at(per_s), self._watts.half, kinds.pop() or ""

    @cached_property
    def _watts(self) -> Power | None:
        known = []
        for one in self.results:
            speed, power_w = one.value(THROUGHPUT), one.value("energy.avg_power_w")
            if speed and power_w and not why_not_ranked(one):
                known.append((speed / one.point.devices, power_w / one.point.devices))
        return Power(known) if len(known) >= FEWEST_POINTS else None

    def disturbed(self) -> list[LeftOut]:
        """Return outliers against neighbouring points."""
        return disturbed(self.errors, len(self.points))


def around(value: float, half: float) -> Interval:
    """Return the interval around a value, from its half-width as a logarithm."""
    return Interval(value * math.exp(-half), value * math.exp(half))


def work_per_wh(per_s: float, power_w: float) -> float:
    """Return the work per watt-hour, from a throughput per second and the power of all its devices, in watts."""
    return per_s * JOULES_PER_WH / power_w


class Power:
    """Power of a device as a linear function of its throughput, fitted to pairs of both.

    Base and slope are not below 0 (SciPy's nnls), and the power does not exceed the highest measured one. `half` is the
    half-width, as a logarithm, of Student's interval, from each pair predicted by the others.
    """

    def __init__(self, known: list[tuple[float, float]]) -> None:
        errors = [
            math.log(_line(known[:index] + known[index + 1 :])(known[index][0]) / known[index][1])
            for index in range(len(known))
        ]
        self._line, self._most_w = _line(known), max(power_w for _, power_w in known)
        self.half = _students_half(errors)

    def at(self, per_s: float) -> float:
        """Return the power at a throughput, in watts."""
        return min(self._line(per_s), self._most_w)


def _students_half(errors: Sequence[float]) -> float:
    """Return the half-width of the interval of a further error, from errors around 0."""
    spread = math.sqrt(math.fsum(error**2 for error in errors) / len(errors))
    return students_t(len(errors) - 1) * spread


def _line(known: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    import numpy as np
    from scipy.optimize import nnls

    speeds, watts = np.array(known).T
    scale = speeds.max()
    rest, each = nnls(np.stack([1 / watts, speeds / scale / watts], axis=1), np.ones(len(watts)))[0]
    return lambda per_s: float(rest + each * per_s / scale)


@cache
def published_sweeps() -> Mapping[tuple[str, str], list[Measured]]:
    """Return published points by workload and system, of systems with enough of them."""
    sweeps: dict[tuple[str, str], list[Measured]] = {}
    for benchmark, model in PUBLISHED_SWEEPS:
        for one in throughputs(benchmark, model):
            if one.figure.benchmark != "mlperf":
                points = sweeps.setdefault((benchmark, one.system), [])
                points.append(Measured(one.devices, one.global_batch, one.units_per_s))
    return {name: points for name, points in sweeps.items() if len(points) > FEWEST_POINTS}


@cache
def published_left_out() -> Mapping[tuple[str, str], list[LeftOut]]:
    """Return the errors of predictions of published points, by workload and system."""
    return {name: left_out(points) for name, points in published_sweeps().items()}


def published_errors(far: str, without: str = "") -> list[float]:
    """Return the errors of published predictions at that distance, of all systems but one."""
    return [
        one.error
        for (_, system), errors in published_left_out().items()
        for one in errors
        if one.distance == far and system != without
    ]


def groups_of(results: Iterable[PointResults]) -> list[Group]:
    """Group the points for one curve each: a group has the same software, devices and options."""

    def key(one: PointResults) -> tuple[object, ...]:
        variant = variant_of(one.any, micro_batch=False)
        return one.system, one.point._replace(devices=0, global_batch=0), variant, one.precision

    groups = []
    trained = (one for one in results if one.good and one.value(THROUGHPUT) and not _is_other(one))
    for points in grouped(trained, key).values():
        # A workload that sums no gradients up has the micro batch that its batch gives; else it is an option.
        is_option = any(_accumulates(one.any) for one in points)
        platforms = grouped(points, lambda one: (variant_of(one.any, is_option), _platform(one.any)))  # noqa: B023
        words = differences([platform for _, platform in platforms])
        for ((variant, _), mine), differs in zip(platforms.items(), words, strict=True):
            groups.append(Group(mine, (*variant, *differs)))
    return groups


def _platform(record: Record) -> Setup:
    """Return software, devices and their limits: a curve is of one operating point."""
    return (*platform_of(record), ("limits", str(limits_of(record))))


def _is_other(one: PointResults) -> bool:
    """Return whether a point's speed does not follow from its devices and batch, or is not that of a sound training."""
    return bool(one.any.serving or one.point.copies or one.point.to_loss or one.wrong)


def _accumulates(record: Record) -> bool:
    layout = record.layout
    micro, copies = layout.micro_batch_size or 0, layout.data_parallel_size or layout.num_devices or 0
    return bool(micro) and micro * copies < (layout.global_batch_size or 0)


def not_measured(group: Group, results: Iterable[PointResults]) -> list[tuple[int, int]]:
    """Return each (devices, batch) of the sweep that the group lacks, if the devices can divide the batch."""
    mine = [one for one in results if (one.system, one.point[:2]) == (group.first.system, group.first.point[:2])]
    devices, batches = {one.point.devices for one in mine} - {0}, {one.point.global_batch for one in mine} - {0}
    layout = group.first.any.layout
    all_devices = layout.num_devices or 1
    model_devices = all_devices // (layout.data_parallel_size or all_devices)  # of one copy of the model
    have = {one[:2] for one in group.points}
    grid = {(number, batch) for number in devices for batch in batches if not batch % max(1, number // model_devices)}
    return sorted(grid - have)
