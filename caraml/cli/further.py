"""Commands that go beyond the measured points: predictions, references, and what others published."""

from __future__ import annotations

import argparse
from pathlib import Path

from caraml.cli.after import ALL, FILTER, FORMAT, is_whole, loaded, out, printed
from caraml.cli.command import Group, argument, folders, say
from jpwr.process.whole_file import write_whole
from record.values import count
from results.find.records import RecordError
from results.points.learning import as_csv, read_references, reference_of
from results.points.repeats import by_point
from results.published import published as figures_of_others
from results.show.tables.anchors import anchor_table
from results.show.tables.cells import rendered
from results.show.tables.doubts import alike
from results.show.tables.published import published_text

COMMANDS = Group()


@COMMANDS.command(
    folders(),
    argument(
        "--system",
        default="",
        help="a system of these runs; or another of 'caraml systems', predicted from data sheets",
    ),
    argument(
        "--devices", type=int, nargs="+", default=[], metavar="N", help="numbers of devices; default: those measured"
    ),
    argument(
        "--batch", type=int, nargs="+", default=[], metavar="B", help="global batch sizes; default: those measured"
    ),
    FORMAT,
    ALL,
    FILTER,
)
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


@COMMANDS.command(
    folders(), out("file to write or to add to; site.yaml names it; default: %(default)s", Path("references.csv"))
)
def reference(options: argparse.Namespace) -> int:
    """Make a reference of losses from runs in fp32 or bf16 that differ in their seeds alone."""
    made = reference_of(loaded(options.folders).records)
    known = read_references(options.out) if options.out.exists() else {}
    write_whole(options.out, as_csv((known | {made.key: made}).values()))
    print(f"{options.out}: {made.key.workload} {made.key.model}, {made.steps} steps of {count(made.runs, 'run')}")
    return 0


@COMMANDS.command(
    argument("words", nargs="*", metavar="WORD", help="only figures with these words, such as GPT-800M"),
    argument(
        "--results",
        nargs="+",
        type=Path,
        default=[],
        metavar="RUNS",
        help="only figures of the chips of these runs, next to the runs' own",
    ),
)
def published(options: argparse.Namespace) -> int:
    """Print published figures with their sources."""
    if options.results:
        found = loaded(options.results)
        figures = anchor_table(by_point(found.records))
        if not figures:
            raise RecordError("no figure is known that was published for the same chip: 'caraml published' shows all")
        print("\n".join([rendered(figures, "text"), *found.sources]))
        return 0
    print(published_text(figures_of_others(), options.words))
    return 0
