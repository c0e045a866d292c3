"""Predict the throughput of a system at an unmeasured point, with its error; a ranking never includes predictions.

A measured system is predicted from its own points, and the error from each point left out. The curve is the time of a
step as a function of the devices and the batch: a device's time for w samples is t = ((a w + c)^4 + L^4)^(1/4) N^k. It
has a time per sample a (matrix multiplications, attention, activations), a time per step c (optimizer, parameters), a
lower limit L by the launch of the step, and an exponent k for the exposed communication of N devices, all above 0.

A system without runs is predicted from measured systems and one ratio of data sheets. The figure of a device is the
geometric mean of its dense peak in the precision and the bandwidth of its memory. The throughput at a point is that of
a measured system at the same point, multiplied by the ratio of their figures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

from record.values import THROUGHPUT, devices_text, grouped
from results.files.systems import System, read_systems
from results.find.records import Record, RecordError
from results.points.estimate import Interval, students_t
from results.points.facts import Point, as_key, choices_of, differences, facts_of
from results.points.repeats import PointResults
from results.published import throughputs
from results.verdicts.nodes import is_check

SHARPNESS = 4  # exponent of the smooth maximum of launching and computing
NOISE = 0.03  # of a point, relative
PRIOR_WEIGHT = 0.1  # of the prior against one point
FEWEST_POINTS = 3  # of a system, so that two are left where one is left out
FURTHEST = 2  # largest factor between what is asked and what was measured: leaving points out measures no larger error
# What a point is predicted from. Beyond the batches, errors are larger than between them, and fewer are known.
BETWEEN, BEYOND, OTHER_DEVICES = "smaller and larger batches", "batches on one side", "other numbers of devices"
ERRORS_OF = {BETWEEN: (BETWEEN, BEYOND), BEYOND: (BEYOND,), OTHER_DEVICES: (OTHER_DEVICES,)}
GB = 1e9
FEWEST_SYSTEMS = 3  # that were left out
# Of published figures.
PRECISION, OF_16_BIT = "fp16", ("fp16", "bf16")

Place = tuple[int, int]  # devices and batch
Series = Mapping[str, Mapping[Place, float]]  # throughput at each place by system, relative to the devices' figure


class Measured(NamedTuple):
    """A measured point; throughput in units of work per second of all devices."""

    devices: int
    batch: int
    per_s: float


def curve(points: Sequence[Measured]) -> Callable[[int, int], float]:
    """Return the work per second of all devices as a function of their number and the batch.

    The points are of one system, software, precision and model. SciPy's least_squares minimizes relative errors, by the
    loss soft_l1, so that one outlier does not bend the curve.
    """
    import numpy as np
    from scipy.optimize import least_squares

    devices, batches, per_s = np.array(points, dtype=float).T
    samples, seconds = batches / devices, batches / per_s
    # Prior: launching takes half of the shortest step, and a step costs as much as 4 samples.
    shortest, each = seconds.min(), (seconds / samples).min()
    prior = np.log([shortest / 2, each, 4 * each, 0.02])

    def errors(theta: np.ndarray) -> np.ndarray:
        works = np.log(np.exp(theta[1]) * samples + np.exp(theta[2]))
        both = np.logaddexp(SHARPNESS * theta[0], SHARPNESS * works) / SHARPNESS
        misses = both + np.exp(theta[3]) * np.log(devices) - np.log(seconds)
        result: np.ndarray = np.r_[misses / NOISE, PRIOR_WEIGHT * (theta - prior)]
        return result

    launch, sample, step, slower = map(math.exp, least_squares(errors, prior, loss="soft_l1").x)

    def predicted(devices: int, batch: int) -> float:
        works = sample * batch / devices + step
        return float(batch / ((works**SHARPNESS + launch**SHARPNESS) ** (1 / SHARPNESS) * devices**slower))

    return predicted


class LeftOut(NamedTuple):
    """One measured point, predicted without it, or without all points of its number of devices."""

    point: Measured
    source: str  # of ERRORS_OF
    error: float  # logarithm of predicted by measured


def left_out(points: Sequence[Measured]) -> list[LeftOut]:
    """Return each point predicted from all others, and from those of other numbers of devices."""
    rows = list(grouped(points, lambda one: one.devices).values())
    found = []
    for left in [*([one] for row in rows if len(row) > 1 for one in row), *rows]:
        kept = [one for one in points if one not in left]
        if len(kept) < FEWEST_POINTS - 1:
            continue
        per_s = curve(kept)
        found += [LeftOut(one, source_of(kept, *one[:2]), math.log(per_s(*one[:2]) / one.per_s)) for one in left]
    return found


def half_interval(errors: Iterable[LeftOut], source: str) -> float:
    """Return the half-width, as a logarithm, of the interval of a further point, by Student's t over errors around 0.

    The errors of a number of devices that was left out go together, and count as one. Infinite for fewer than two.
    """
    mine = [one for one in errors if one.source in ERRORS_OF[source]]
    groups = grouped(mine, lambda one: one.point.devices if source == OTHER_DEVICES else one.point)
    if len(groups) < 2:
        return math.inf
    squares = [statistics.fmean(one.error**2 for one in group) for group in groups.values()]
    return students_t(len(groups)) * math.sqrt(statistics.fmean(squares))


def source_of(points: Iterable[Measured], devices: int, batch: int) -> str:
    """Return which of the measured points predict a point."""
    row = [one.batch for one in points if one.devices == devices]
    if not row:
        return OTHER_DEVICES
    return BETWEEN if min(row) < batch < max(row) else BEYOND


def too_far(points: Iterable[Measured], devices: int, batch: int) -> str:
    """Return in what a point is further from the measured ones than FURTHEST times, in words; empty if it is not."""
    row = {float(one.batch) for one in points if one.devices == devices}
    asked: list[tuple[str, float, set[float]]] = [("samples in a batch", batch, row)]
    if not row:
        asked = [("devices", devices, {float(point.devices) for point in points})]
        asked.append(("samples per device", batch / devices, {point.batch / point.devices for point in points}))
    for words, number, known in asked:
        if min(max(number / measured, measured / number) for measured in known) > FURTHEST:
            measured = f"what was measured, {min(known):g} to {max(known):g}"
            return f"{number:g} {words} are not within {FURTHEST} times or half of {measured}"
    return ""


class PredictionError(RecordError):
    """The measurements do not allow the prediction; the message is one sentence with what to do."""


class Prediction(NamedTuple):
    """Throughput of all devices at one point, in units of work per second, with its 95 % interval."""

    system: str
    point: Point
    variant: tuple[str, ...]
    precision: str
    source: str  # what it was predicted from, which was left out for the error
    unit: str
    per_s: float
    interval: Interval


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
        self.places = {one[:2] for one in self.points}

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
    def _curve(self) -> Callable[[int, int], float]:
        return curve(self.points)

    def predict(self, devices: int, batch: int) -> Prediction:
        """Predict a point; raises PredictionError if the measurements are not enough."""
        if (devices, batch) in self.places:
            raise PredictionError(f"{self}: {devices_text(devices)}, batch {batch} was measured: see its table")
        if len(self.points) < FEWEST_POINTS:
            raise PredictionError(
                f"{self} has {len(self.points)} good points, but a prediction needs {FEWEST_POINTS}: measure at least "
                "its smallest and its largest batch and one between them"
            )
        most = max(one.devices for one in self.points)
        runs = [record.devices for one in self.results for record in one.good]
        are_processes = any(str(device.name).startswith("CPU") for run in runs for device in run)
        if devices > most and are_processes and all(len({device.hostname for device in run}) <= 1 for run in runs):
            raise PredictionError(
                f"{self}: {devices_text(devices)} were asked for, but they are processes that share the cores of "
                f"one node: ask for at most {most}, or measure on two nodes"
            )
        if words := too_far(self.points, devices, batch):
            raise PredictionError(f"{self}: {words}: measure nearer to it")
        source = source_of(self.points, devices, batch)
        half = half_interval(self.errors, source)
        if half == math.inf:
            raise PredictionError(
                f"{self}: the error of {devices_text(devices)}, batch {batch}, predicted from {source}, is not known: "
                "measure at least two batches on each of two numbers of devices"
            )
        per_s = self._curve(devices, batch)
        return Prediction(
            self.first.system,
            self.first.point._replace(devices=devices, global_batch=batch),
            self.variant,
            self.first.precision,
            source,
            self.first.any.work_unit,
            per_s,
            around(per_s, half),
        )


def around(value: float, half: float) -> Interval:
    """Return the interval around a value, from its half-width as a logarithm."""
    return Interval(value * math.exp(-half), value * math.exp(half))


def kind_of(one: PointResults) -> tuple[object, ...]:
    """Return all that is equal for points of one sweep, on any system."""
    return one.point._replace(devices=0, global_batch=0), choices_of(one.any, micro_batch=False), one.precision


def groups_of(results: Iterable[PointResults]) -> list[Group]:
    """Group the points for one curve each: a group has the same software, devices and options."""

    groups = []
    trained = (one for one in results if one.good and one.value(THROUGHPUT) and not _is_other(one))
    for points in grouped(trained, lambda one: (one.system, *kind_of(one))).values():
        # A workload that sums no gradients up has the micro batch that its batch gives; else it is an option.
        is_option = any(_accumulates(one.any) for one in points)
        platforms = grouped(points, lambda one: (choices_of(one.any, is_option), as_key(facts_of(one.any).platform)))  # noqa: B023
        words = differences([platform for _, platform in platforms])
        for ((variant, _), mine), differs in zip(platforms.items(), words, strict=True):
            groups.append(Group(mine, (*variant, *differs)))
    return groups


def _is_other(one: PointResults) -> bool:
    """Return whether a point's speed does not follow from its devices and batch, or is not that of a sound training."""
    return bool(one.any.serving or is_check(one.any) or one.point.copies or one.point.to_loss or one.wrong)


def _accumulates(record: Record) -> bool:
    layout = record.layout
    micro, copies = layout.micro_batch_size or 0, layout.data_parallel_size or layout.num_devices or 0
    return bool(micro) and micro * copies < (layout.global_batch_size or 0)


class Ratio:
    """A system without runs, at the points of measured systems that ran the same; raises PredictionError."""

    def __init__(self, groups: Sequence[Group], system: str) -> None:
        self.first, self.system = groups[0].first, system
        self._blocks = read_systems()
        if system not in self._blocks:
            raise PredictionError(
                f"there is no run on {system}, nor a block of it in systems.yaml: 'caraml systems' lists them"
            )
        self._figure = figure(self._blocks[system], self.first.precision)
        if not self._figure:
            raise PredictionError(
                f"{system} has no peak_tflops_{self.first.precision} or no memory_gb_per_s_per_device in systems.yaml: "
                "state both, from its data sheet"
            )
        # Points of one node by system, as data sheets do not include the network; of several options, the fastest.
        self._known: dict[str, dict[Place, PointResults]] = {}
        for one in (one for group in groups for one in group.results):
            block = self._blocks.get(one.system)
            if block and figure(block, self.first.precision) and one.point.devices <= block.devices_per_node:
                place, points = (one.point.devices, one.point.global_batch), self._known.setdefault(one.system, {})
                points[place] = max(points.get(place, one), one, key=self._relative)
        self.places = {place for points in self._known.values() for place in points}

    def predict(self, devices: int, batch: int) -> Prediction:
        """Predict a point; raises PredictionError if it cannot be predicted, or if the error is not known."""
        known = {name: points[devices, batch] for name, points in self._known.items() if (devices, batch) in points}
        what = f"{self.first.point.model} in {self.first.precision} on {devices_text(devices)}, batch {batch}"
        if devices > self._blocks[self.system].devices_per_node:
            raise PredictionError(
                f"{self.system}: {what} takes several nodes of it, and data sheets do not include the network: ask for "
                "the devices of one node"
            )
        if not known:
            raise PredictionError(
                f"{self.system}: no system with a data sheet in systems.yaml was measured on one node with {what}: "
                "measure one"
            )
        for name, one in known.items():
            self._check_memory(name, one)
        own = {name: {at: self._relative(one) for at, one in points.items()} for name, points in self._known.items()}
        half = half_of_systems([own, published(self.first)])
        if half == math.inf:
            raise PredictionError(
                f"{self.system}: the error of data sheets is not known for {self.first.point.model} in "
                f"{self.first.precision}, which needs {FEWEST_SYSTEMS} systems at the same points, published or yours: "
                f"measure on {self.system}"
            )
        per_s = self._figure * statistics.geometric_mean(self._relative(one) for one in known.values())
        return Prediction(
            self.system,
            self.first.point._replace(devices=devices, global_batch=batch),
            tuple(one for one in choices_of(self.first.any, micro_batch=False) if one != self.first.precision),
            self.first.precision,
            f"data sheets, from {' and '.join(known)}",
            self.first.any.work_unit,
            per_s,
            around(per_s, half),
        )

    def _check_memory(self, name: str, one: PointResults) -> None:
        """Raise PredictionError if the devices have less memory than a run used, or than its devices have."""
        has_gb = self._blocks[self.system].memory_gb_per_device
        used = [device.peak_memory_bytes or math.inf for record in one.good for device in record.devices]
        needed_gb = min(max(used, default=math.inf) / GB, self._blocks[name].memory_gb_per_device)
        if has_gb and needed_gb > has_gb:
            raise PredictionError(
                f"{self.system} has {has_gb:g} GB per device, and the run on {name} took up to {needed_gb:.0f}: ask "
                "for more devices or a smaller batch"
            )

    def _relative(self, one: PointResults) -> float:
        return (one.value(THROUGHPUT) or 0.0) / figure(self._blocks[one.system], self.first.precision)


def figure(block: System | None, precision: str) -> float:
    """Return the figure of a device; 0: its data sheet is not known."""
    return math.sqrt(block.peak_tflops(precision) * block.memory_gb_per_s_per_device) if block else 0.0


def published(like: PointResults) -> Series:
    """Return the published points of one node with the same workload and model; none in another precision."""
    blocks = read_systems()
    series: dict[str, dict[Place, float]] = {}
    for one in throughputs(like.point.benchmark, like.point.model) if like.precision in OF_16_BIT else ():
        block = blocks.get(one.figure.systems)
        if block and one.figure.precision == PRECISION and one.devices <= block.devices_per_node:
            relative = one.units_per_s / figure(block, PRECISION)
            series.setdefault(one.system, {})[one.devices, one.global_batch] = relative
    return series


def misses(series: Series) -> dict[tuple[str, str], list[float]]:
    """Return the errors, as logarithms, of each system predicted from each other one at the points of both."""
    pairs = {
        (asked, known): [math.log(series[known][at] / series[asked][at]) for at in series[known].keys() & series[asked]]
        for asked, known in permutations(series, 2)
    }
    return {pair: errors for pair, errors in pairs.items() if errors}


def half_of_systems(every: Iterable[Series]) -> float:
    """Return the half-width, as a logarithm, of the interval of a further system, by Student's t over systems.

    With a residual per system, an error is the difference of two, so that the mean square over pairs of n systems
    has twice the residuals' variance and n - 1 degrees of freedom. Infinite for fewer than FEWEST_SYSTEMS.
    """
    parts = []
    for series in every:
        errors = misses(series)
        partners = grouped(errors, lambda pair: pair[0]).values()
        if partners:
            square = statistics.fmean(statistics.fmean(error**2 for error in mine) for mine in errors.values())
            parts.append((max(map(len, partners)), square))
    freedom = sum(number for number, _ in parts)
    if freedom < FEWEST_SYSTEMS - 1:
        return math.inf
    return students_t(freedom) * math.sqrt(sum(number * square for number, square in parts) / freedom)
