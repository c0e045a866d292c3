"""Commands that go beyond the measured points: predictions, and references of losses."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from caraml.cli.loading import loaded
from caraml.cli.options import add_filter, add_folders, add_form, add_out, say
from caraml.cli.tables import is_whole, printed
from jpwr.process.whole_file import write_whole
from record.values import count
from results.points.learning import as_csv, read_references, reference_of
from results.points.repeats import by_point
from results.show.tables.cells import FORMS
from results.show.tables.doubts import alike


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
    from caraml.prediction import Question, answer
    from results.predict.predict import groups_of
    from results.show.tables.prediction import disturbed_words, prediction_table

    points = by_point(loaded(options.folders, conditions=options.filter).records)
    groups = groups_of(points)
    found = answer(points, groups, Question(options.system, options.devices, options.batch))
    if found.predictions:
        print(printed(prediction_table(found.predictions).needed(is_whole(options)), options.format))
    if options.format == "text" and found.predictions:
        print("PREDICTED, not measured: do not rank with measured points. Low and high bound the 95 % interval.")
    for sentence in [*(words for group in groups for words in disturbed_words(group)), *alike(found.refused)]:
        say(sentence)
    return 0 if found.predictions and not found.refused else 1 if found.predictions else 2


def reference(options: argparse.Namespace) -> int:
    """Make a reference of losses from runs in fp32 or bf16 that differ in their seeds alone."""
    made = reference_of(loaded(options.folders).records)
    known = read_references(options.out) if options.out.exists() else {}
    write_whole(options.out, as_csv((known | {made.key: made}).values()))
    print(f"{options.out}: {made.key.workload} {made.key.model}, {made.steps} steps of {count(made.runs, 'run')}")
    return 0
