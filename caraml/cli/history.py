"""Commands on the history of a machine: the same benchmarks run again and again."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from caraml.cli.after import FILTER, JSON, matching, out, records_in
from caraml.cli.command import Argument, Group, above_0, argument, file, folders, say
from caraml.cli.during import wait
from caraml.cli.exchange import WRITERS, write_in_format
from caraml.errors import CaramlError, SweepError
from caraml.plan.site import read_site
from caraml.sweep import run_folder
from caraml.wait import NOT_IN_TIME
from jpwr.process.whole_file import replaced, write_whole
from results.exchange.archive import MOST_GB
from results.files.yaml_files import YamlError, read_yaml
from results.history import database
from results.history.judge import SeriesVerdict, read_known, verdict_data, verdict_of
from results.history.series import series_of, time_d
from results.record.records import Found, Record, RecordError, Skipped
from results.record.values import count
from results.show.notebook import frame_of
from results.show.tables.doubts import alike
from results.show.tables.machine.history import history_data, history_text
from results.verdicts.outcome import Outcome, exit_code

COMMANDS, ACTIONS = Group(), Group()
DB = file("--db", "the history; default: history_db of site.yaml")
JUDGED: tuple[Argument, ...] = (
    DB,
    argument("--since", default="", metavar="DATE", help="only changes from this day on, such as 2026-03-09"),
    argument(
        "--threshold", type=above_0, default=2.0, metavar="PERCENT", help="what counts as worse; default: %(default)g"
    ),
    file("--known", "a YAML file of acknowledged changes, which no longer count"),
)


def _add_actions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, action in ACTIONS.items():
        added = actions.add_parser(name, description=action.description, help=action.help)
        for add_to in action.arguments:
            add_to(added)


@COMMANDS.command(_add_actions)
def history(options: argparse.Namespace) -> int:
    """Track the results of a machine over time, and detect regressions."""
    if options.db is None:
        try:
            options.db = Path(read_site("").history_db)
        except CaramlError as error:
            raise CaramlError(f"{error}; or name the history with --db") from error
    return ACTIONS[options.action].run(options)


@ACTIONS.command(folders(), DB)
def add(options: argparse.Namespace) -> int:
    """Add results, each once; exits with 1 if one cannot be added."""
    found = records_in(options.folders, as_recorded=True)
    return _say_added(options.db, database.add(options.db, found.records), found.skipped)


@ACTIONS.command(
    argument("archives", type=Path, nargs="+", metavar="ARCHIVE", help="a file written by 'caraml archive'"),
    argument(
        "--most-gb",
        type=above_0,
        default=MOST_GB,
        metavar="GB",
        help="limit of the unpacked size, as for 'caraml verify'",
    ),
    DB,
)
def import_(options: argparse.Namespace) -> int:
    """Add the results of archives whose files are unchanged."""
    codes = []
    for archive in options.archives:
        added, skipped = database.add_archive(options.db, archive, options.most_gb)
        for sentence in alike(map(str, skipped)):
            say(f"skipped: {sentence}")
        codes.append(_say_added(options.db, added, skipped))
    return max(codes)


def _say_added(path: Path, added: database.Added, skipped: Sequence[Skipped]) -> int:
    print(f"{path}: {count(added.new, 'record')} added, {added.known} were there", flush=True)
    for sentence in alike(added.refused):
        say(sentence)
    return int(bool(added.refused) or any(one.systems is not None for one in skipped))


@ACTIONS.command(
    DB,
    FILTER,
    argument("--last", type=int, default=10, metavar="N", help="days with runs that count; default: %(default)d"),
    JSON,
)
def show(options: argparse.Namespace) -> int:
    """Print the last value of each point, with the median and the trend of the last ones."""
    if options.last < 1:
        raise RecordError(f"--last {options.last} was asked for: at least 1 day is needed")
    series = [history_data(one, options.last) for one in series_of(_records(options))]
    print(json.dumps(series, indent=1) if options.json else history_text(series))
    return 0


@ACTIONS.command(*JUDGED, FILTER, out(default=Path("history.html")))
def report(options: argparse.Namespace) -> int:
    """Write a page with each point over time, and the changes of driver, container and code."""
    from results.show.page.history import write_history

    write_history(_verdicts(options)[0], options.threshold / 100, options.out)
    print(options.out)
    return 0


@ACTIONS.command(*JUDGED, FILTER, JSON)
def check(options: argparse.Namespace) -> int:
    """Judge the history; exits with 1 if a point got worse, with 3 if its runs cannot decide."""
    verdicts, skipped = _verdicts(options)
    if options.json:
        print(json.dumps([verdict_data(one) for one in verdicts], indent=1))
    else:
        print("\n".join(one.text for one in verdicts))
    return exit_code([*(one.outcome for one in verdicts), *[Outcome.UNDECIDED] * bool(skipped)])


@ACTIONS.command(
    *JUDGED,
    argument("--limit", type=above_0, metavar="S", help="exit with 3 if the jobs take longer"),
    argument("workflow", type=Path, metavar="WORKFLOW", help="such as jube/llm.yaml"),
    argument("jube", nargs=argparse.REMAINDER, metavar="...", help="options of 'jube run', such as --tag CPU"),
)
def run(options: argparse.Namespace) -> int:
    """Run a workflow, wait for it, add its results and judge the history."""
    options.folders = [_results_of(options)]
    options.filter, options.json, options.interval, options.retry_failed, options.keep = [], False, 10.0, False, False
    done = subprocess.run([os.environ.get("JUBE", "jube"), "run", str(options.workflow), *options.jube], check=False)
    if done.returncode:
        run_folder(options.folders[0])  # raises SweepError with the reason of a run that was refused
        raise SweepError(f"'jube run' ended with exit code {done.returncode}: nothing was added")
    codes = [wait(options)]
    if codes[0] != NOT_IN_TIME:
        codes += [add(options), check(options)]
    return 1 if 1 in codes else max(codes)


def _results_of(options: argparse.Namespace) -> Path:
    """Return the folder into which JUBE writes the runs of a workflow."""
    of_jube = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    of_jube.add_argument("-o", "--outpath", nargs="?")  # JUBE itself refuses one without a folder
    asked, _ = of_jube.parse_known_args(options.jube)
    if asked.outpath is not None:
        return Path(asked.outpath)
    try:
        return Path(options.workflow.parent, read_yaml(options.workflow)["outpath"])
    except (YamlError, KeyError, TypeError) as error:
        raise SweepError(f"{options.workflow} is no workflow ({error}): give one such as jube/llm.yaml") from error


@ACTIONS.command(
    DB,
    FILTER,
    argument("--format", choices=("csv", "parquet", *WRITERS), required=True, help="others as for 'caraml export'"),
    out("file, or folder, as for 'caraml export'; default: %(default)s", Path("history")),
)
def export(options: argparse.Namespace) -> int:
    """Write the history for other programs: a row, a line or a sample for each run."""
    records = _records(options)
    if options.format in WRITERS:
        return write_in_format(records, options)
    if options.format == "csv":
        write_whole(options.out, frame_of(records).to_csv(index=False))
    else:
        with replaced(options.out) as part:
            frame_of(records).to_parquet(part, index=False)
    print(f"{options.out}: {count(len(records), 'run')}")
    return 0


def _found(options: argparse.Namespace) -> Found:
    """Return the records of a history that meet the conditions, and print those that no series can have."""
    found = database.read([options.db])
    for sentence in alike(map(str, found.skipped)):
        say(f"skipped: {sentence}")
    return found._replace(records=matching(found.records, options.filter))


def _records(options: argparse.Namespace) -> list[Record]:
    return _found(options).records


def _verdicts(options: argparse.Namespace) -> tuple[list[SeriesVerdict], list[Skipped]]:
    """Return the verdict on each series, and the records that are missing in them."""
    since_d = time_d(options.since) if options.since else -math.inf
    if math.isnan(since_d):
        raise RecordError(f"--since {options.since} was asked for: write a day as 2026-03-09")
    known = read_known(options.known) if options.known else []
    found = _found(options)
    return [verdict_of(one, options.threshold / 100, since_d, known) for one in series_of(found.records)], found.skipped
