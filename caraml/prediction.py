"""Predictions that a user asks for: of measured systems, or of one without runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from benchmarks.common.options import ConfigError
from caraml.plan.workloads import workload
from record.values import grouped
from results.points.repeats import PointResults, variant_of
from results.predict.predict import Group, Prediction, PredictionError
from results.predict.ratio import Ratio


class Question(NamedTuple):
    """Points to predict; an empty field stands for the measured values."""

    system: str = ""  # its name in records
    devices: Sequence[int] = ()
    batches: Sequence[int] = ()


class Answer(NamedTuple):
    """Predictions, and a sentence on each that could not be made."""

    predictions: list[Prediction]
    refused: list[str]


def answer(results: Sequence[PointResults], groups: Sequence[Group], question: Question) -> Answer:
    """Predict for every measured model and variant on the system; `groups` are those of the results.

    Raises PredictionError if nothing fits, or if no point is missing that could be predicted.
    """
    for name, numbers in (("devices", question.devices), ("batch", question.batches)):
        if any(number < 1 for number in numbers):
            raise PredictionError(f"--{name} {min(numbers)} was asked for: it is at least 1")
    if not groups:
        is_other = any(one.good for one in results)
        others = (
            "each good run is of a server, of a node check, of several copies, to a loss, or does not learn as its "
            "reference"
        )
        why = others if is_other else "no run was good"
        raise PredictionError(f"{why}: predictions are made from good runs of a training")
    measured = [one for one in groups if question.system in ("", one.first.system)]
    found = Answer([], [])
    sources: list[Group | Ratio] = [*measured]
    for mine in [] if measured else _alike(groups):
        try:
            sources.append(Ratio(mine, question.system))
        except PredictionError as error:
            found.refused.append(str(error))
    for source in sources:
        point = source.first.point
        for devices, batch in _places(source, question):
            try:
                workload(point.benchmark).check_point(point.model, devices, batch)
                found.predictions.append(source.predict(devices, batch))
            except PredictionError as error:
                found.refused.append(str(error))
            except ConfigError as error:  # the devices cannot share the batch
                if question.devices or question.batches:
                    found.refused.append(str(error))
    if not found.predictions and not found.refused:
        raise PredictionError("no point of the sweep is missing: give the points to predict by --devices or --batch")
    return found


def _alike(groups: Sequence[Group]) -> list[list[Group]]:
    """Return the groups of each model, precision and choice of options, of all systems."""

    def key(one: Group) -> tuple[object, ...]:
        point = one.first.point._replace(devices=0, global_batch=0)
        return point, one.first.precision, variant_of(one.first.any, micro_batch=False)

    return list(grouped(groups, key).values())


def _places(source: Group | Ratio, question: Question) -> list[tuple[int, int]]:
    """Return the asked numbers of devices with the asked batch sizes; by default the measured ones."""
    devices, batches = (sorted({place[index] for place in source.places}) for index in (0, 1))
    grid = list(product(question.devices or devices, question.batches or batches))
    if isinstance(source, Ratio):
        return grid if question.devices or question.batches else sorted(source.places)
    return grid if question.devices and question.batches else [place for place in grid if place not in source.places]
