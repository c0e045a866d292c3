"""Throughput of a system without runs, from measured systems and one ratio of data sheets.

The figure of a device is the geometric mean of its dense peak in the precision and the bandwidth of its memory. The
throughput at a point is that of a measured system at the same point, multiplied by the ratio of their figures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations

from record.values import THROUGHPUT, devices_text, grouped
from results.files.systems import System, read_systems
from results.points.estimate import students_t
from results.points.facts import choices_of
from results.points.repeats import PointResults
from results.predict.predict import Group, Prediction, PredictionError, around
from results.published import throughputs

GB = 1e9
FEWEST_SYSTEMS = 3  # that were left out
# Of published figures.
PRECISION, OF_16_BIT = "fp16", ("fp16", "bf16")

Place = tuple[int, int]  # devices and batch
Series = Mapping[str, Mapping[Place, float]]  # throughput at each place by system, relative to the devices' figure


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
        half = half_interval([own, published(self.first)])
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


def half_interval(every: Iterable[Series]) -> float:
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
