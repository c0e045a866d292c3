"""Commands that go beyond the measured points: predictions, and references of losses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import product

from benchmarks.common.options import ConfigError
from caraml.cli.options import add_filter, add_folders, add_form, add_out, say
from caraml.cli.tables import is_whole, loaded, printed
from caraml.plan.workloads import workload
from jpwr.process.whole_file import write_whole
from record.values import count, grouped
from results.points.learning import as_csv, read_references, reference_of
from results.points.repeats import by_point
from results.predict import Group, Prediction, PredictionError, Ratio, groups_of, kind_of
from results.show.tables.cells import FORMS
from results.show.tables.table import prediction_table
from results.show.words import merged


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of this module."""
    parser = add(predict)
    add_folders(parser)
    text = "a system of these runs; or another of 'caraml systems', predicted from data sheets"
    parser.add_argument("--system", default="", help=text)
    text = "numbers of devices; default: those measured"
    parser.add_argument("--devices", type=int, nargs="+", default=[], metavar="N", help=text)
    text = "global batch sizes; default: those measured"
    parser.add_argument("--batch", type=int, nargs="+", default=[], metavar="B", help=text)
    add_form(parser, FORMS)
    add_filter(parser)

    parser = add(reference)
    add_folders(parser)
    add_out(parser, "file to write or to add to; site.yaml names it; default: %(default)s", "references.csv")


def predict(options: argparse.Namespace) -> int:
    """Predict unmeasured batches, numbers of devices and systems, with the error of each prediction."""
    groups = groups_of(by_point(loaded(options.folders, conditions=options.filter).records))
    predictions, refused = _predicted(groups, options)
    if predictions:
        print(printed(prediction_table(predictions).needed(is_whole(options)), options.format))
    if options.format == "text" and predictions:
        print("PREDICTED, not measured: do not rank with measured points. Low and high bound the 95 % interval.")
    for sentence in merged(refused):
        say(sentence)
    return 0 if predictions and not refused else 1 if predictions else 2


def _predicted(groups: Sequence[Group], options: argparse.Namespace) -> tuple[list[Prediction], list[str]]:
    """Predict for every measured model and variant on the system, with a sentence on each that could not be made.

    Raises PredictionError if nothing fits, or if no point is missing that could be predicted.
    """
    for name, numbers in (("devices", options.devices), ("batch", options.batch)):
        if any(number < 1 for number in numbers):
            raise PredictionError(f"--{name} {min(numbers)} was asked for: it is at least 1")
    if not groups:
        raise PredictionError(
            "no good run is of a training, of one copy and a stated number of steps, and learns as its reference: "
            "predictions are made from such runs"
        )
    measured = [group for group in groups if options.system in ("", group.first.system)]
    predictions: list[Prediction] = []
    refused: list[str] = []
    sources: list[Group | Ratio] = [*measured]
    of_all_systems = grouped(groups, lambda group: kind_of(group.first)).values()
    for groups_of_kind in () if measured else of_all_systems:
        try:
            sources.append(Ratio(groups_of_kind, options.system))
        except PredictionError as error:
            refused.append(str(error))
    for source in sources:
        point = source.first.point
        for devices, batch in _places(source, options.devices, options.batch):
            try:
                workload(point.benchmark).check_point(point.model, devices, batch)
                predictions.append(source.predict(devices, batch))
            except PredictionError as error:
                refused.append(str(error))
            except ConfigError as error:  # the devices cannot share the batch
                if options.devices or options.batch:
                    refused.append(str(error))
    if not predictions and not refused:
        raise PredictionError("no point of the sweep is missing: give the points to predict by --devices or --batch")
    return predictions, refused


def _places(source: Group | Ratio, asked_devices: Sequence[int], asked_batches: Sequence[int]) -> list[tuple[int, int]]:
    """Return the asked numbers of devices with the asked batch sizes; by default the measured ones."""
    devices, batches = (sorted({place[index] for place in source.places}) for index in (0, 1))
    grid = list(product(asked_devices or devices, asked_batches or batches))
    if isinstance(source, Ratio):
        return grid if asked_devices or asked_batches else sorted(source.places)
    return grid if asked_devices and asked_batches else [place for place in grid if place not in source.places]


def reference(options: argparse.Namespace) -> int:
    """Make a reference of losses from runs in fp32 or bf16 that differ in their seeds alone."""
    made = reference_of(loaded(options.folders).records)
    known = read_references(options.out) if options.out.exists() else {}
    write_whole(options.out, as_csv((known | {made.key: made}).values()))
    print(f"{options.out}: {made.key.workload} {made.key.model}, {made.steps} steps of {count(made.runs, 'run')}")
    return 0
