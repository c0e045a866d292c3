"""Predict the throughput of a system at an unmeasured point, from its own points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from record.values import THROUGHPUT, devices_text, grouped
from results.find.records import Record, RecordError
from results.points.estimate import Interval
from results.points.facts import Point, as_key, choices_of, differences, facts_of
from results.points.repeats import PointResults
from results.predict.curve import (
    FEWEST_POINTS,
    Curve,
    LeftOut,
    Measured,
    half_interval,
    left_out,
    source_of,
    too_far,
)
from results.verdicts.nodes import is_check


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
    def _curve(self) -> Curve:
        return Curve(self.points)

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
        if devices > most and self._shares_cores:
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
        per_s = self._curve.per_s(devices, batch)
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

    @cached_property
    def _shares_cores(self) -> bool:
        """Whether the devices are processes on the processors of a single node."""
        runs = [record.devices for one in self.results for record in one.good]
        are_processes = any(str(device.name).startswith("CPU") for run in runs for device in run)
        return are_processes and all(len({device.hostname for device in run}) <= 1 for run in runs)


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
