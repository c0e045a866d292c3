"""Tables of results, and of published figures; the records of the folders that a command was given."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from caraml.cli.options import add_filter, add_flag, add_folders, add_form, add_meter, add_node_check, add_out, say
from caraml.plan.site import read_site
from caraml.sweep import no_results, run_folder
from jpwr.process.whole_file import replaced, write_whole
from results.files.quantities import QUANTITIES
from results.find.records import Record, RecordError
from results.frames import csv_text, points_frame, runs_frame
from results.load import Loaded, load
from results.points.facts import sort_key
from results.points.repeats import by_point
from results.show.tables import table as tables
from results.show.tables.cells import FORMS, Table, rendered
from results.show.tables.parts import file_table, of_reads, read_table, region_table
from results.show.tables.table import anchor_table, point_table, published_text, record_table
from results.show.words import merged

PARQUET = "parquet"
ACHIEVABLE = QUANTITIES["achievable_percent"].path
OWN_ORDER = ("pivot", "regions", "reads")
FRAMES = ("", "repeats")  # shapes with a row for each run, or for each point


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of this module."""
    parser = add(table)
    add_folders(parser)
    add_form(parser, (*FORMS, PARQUET), "csv and parquet have")
    add_out(parser, "write the table to this file; parquet needs it")
    add_filter(parser)
    add_meter(parser)
    add_node_check(parser)
    parser.add_argument("--sort", metavar="COLUMN", help="sort by a column, such as 'tokens/s'")
    add_flag(parser, "--largest-first", "with --sort: in descending order")
    parser.add_argument("--tier", type=float, metavar="MB/S", help="with --reads: bandwidth of another storage")
    text = "with --reads: which files to copy to a fast storage of N bytes"
    parser.add_argument("--stage-bytes", type=float, metavar="N", help=text)
    shape = parser.add_mutually_exclusive_group()
    add_flag(shape, "--repeats", "one row per point: median, interval, quality")
    add_flag(shape, "--regions", "one row per region: the time of a step by its parts")
    add_flag(shape, "--reads", "data read, and the effect of a faster storage")
    shape.add_argument("--titles", choices=("caraml",), help="caraml: the columns of the original suite")
    text = "one value by devices and batch, such as metrics.tokens_per_s"
    shape.add_argument("--pivot", metavar="KEY", help=text)

    parser = add(published)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only figures with these words, such as GPT-800M")
    text = "only figures of the chips of these runs, next to the runs' own"
    parser.add_argument("--results", nargs="+", type=Path, default=[], metavar="RUNS", help=text)


def loaded(folders: Sequence[Path], checks: Sequence[Path] = (), **options: Any) -> Loaded:
    """Return the judged records of some folders, as `results.load.load`; print what was skipped, and other notes."""
    own = read_site("").training_references
    found = load(
        [run_folder(folder) for folder in folders],
        references=[Path(own)] if own else [],
        checks=[run_folder(folder) for folder in checks],
        why_empty=no_results,
        **options,
    )
    for sentence in merged(map(str, found.skipped)):
        say(f"skipped: {sentence}")
    for note in found.notes:
        say(note)
    return found


def table(options: argparse.Namespace) -> int:
    """Print results as a table."""
    _check_table(options)
    found = loaded(options.folders, options.node_check, conditions=options.filter, meters=options.meter)
    records = found.records
    if options.format == PARQUET:
        with replaced(options.out) as part:
            _frame(records, options).to_parquet(part, index=False)
    elif options.out:
        write_whole(options.out, f"{_rendered(records, options)}\n")
    else:
        print(_rendered(records, options))
    # Failures would spoil a table for a program or a document.
    sources = found.sources if options.all or options.node_check or options.format == "csv" else []
    for sentence in [*sources, *tables.failures(records)]:
        print(sentence, file=sys.stdout if options.format == "text" else sys.stderr)
    return 0


def _shape(options: argparse.Namespace) -> str:
    """Return the option that chooses the rows; empty for a row for each run."""
    return next((name for name in (*OWN_ORDER, "repeats", "titles") if getattr(options, name)), "")


def _check_table(options: argparse.Namespace) -> None:
    """Raise RecordError for an option that would be ignored."""
    shape = _shape(options)
    if options.largest_first and not options.sort:
        raise RecordError("--largest-first needs --sort COLUMN")
    if options.sort and shape in OWN_ORDER:
        raise RecordError(f"--{shape} has its own order: leave out --sort")
    if options.format == PARQUET and (shape not in FRAMES or not options.out):
        why = f"without --{shape}" if shape not in FRAMES else "and is written to a file: name it with --out"
        raise RecordError(f"--format parquet has a row for each run or, with --repeats, for each point, {why}")
    for name in ("tier", "stage_bytes"):
        value = getattr(options, name)
        if value is not None and not (options.reads and 0 < value < math.inf):
            raise RecordError(f"--{name.replace('_', '-')} {value:g} was asked for: give one above 0, with --reads")


def _frame(records: Sequence[Record], options: argparse.Namespace) -> Any:
    """Return the frame of runs or of points, in the order of the table."""
    rows: Any = by_point(records) if options.repeats else sorted(records, key=sort_key)
    frame = points_frame(rows) if options.repeats else runs_frame(rows)
    if not options.sort:
        return frame
    shown = point_table(rows) if options.repeats else record_table(rows)
    return frame.iloc[shown.order(options.sort, options.largest_first)]


def _rendered(records: Sequence[Record], options: argparse.Namespace) -> str:
    everything, shape = is_whole(options), _shape(options)
    if options.format == "csv" and shape in FRAMES:
        return str(csv_text(_frame(records, options))).rstrip("\n")
    wanted = [*([options.sort] if options.sort else []), *([ACHIEVABLE] if options.node_check else [])]
    points = by_point(records) if shape in ("repeats", "regions", "reads") else []
    notes: Sequence[str] = ()
    if shape == "pivot":
        shown = tables.pivot_table(records, options.pivot)
    elif shape == "regions":
        if not (found := region_table(points)):
            raise RecordError("no good run has times of regions: measure with this version of the suite")
        shown = found.needed(everything)
    elif shape == "reads":
        if not (found := read_table(points)):
            raise RecordError("no good run has a profile of its reads: run with the tag 'io'")
        shown = found.needed(everything)
        conclusions = of_reads(points, options.tier, options.stage_bytes)
        notes = [rendered(file_table(points).needed(everything), "text"), *conclusions]
    else:
        of_runs = tables.original_table if shape == "titles" else record_table
        shown = point_table(points) if shape == "repeats" else of_runs(sorted(records, key=sort_key))
        if options.sort:
            order = shown.order(options.sort, options.largest_first)
            shown = replace(shown, rows=[shown.rows[number] for number in order])
        if options.format != "csv" and shape != "titles":  # which have empty columns, too
            shown = shown.needed(everything, wanted)
        notes = tables.within_limits(points)
    return "\n".join([printed(shown, options.format), *(notes if options.format == "text" else ())])


def is_whole(options: argparse.Namespace) -> bool:
    """Return whether a table has all columns: for a reader who asks, and for programs."""
    return bool(options.all) or options.format == "csv"


def printed(shown: Table, form: str) -> str:
    """Return a table in one of the forms; print the sentences on its other columns unless the text has them."""
    for note in shown.notes if form != "text" else ():
        say(note)
    return rendered(shown, form)


def published(options: argparse.Namespace) -> int:
    """Print published figures with their sources."""
    if options.results:
        found = loaded(options.results)
        figures = anchor_table(by_point(found.records))
        if not figures:
            raise RecordError("no figure is known that was published for the same chip: 'caraml published' shows all")
        print("\n".join([rendered(figures, "text"), *found.sources]))
        return 0
    print(published_text(options.words))
    return 0
