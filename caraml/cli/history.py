"""Commands on the history of a machine: the same benchmarks run again and again."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from caraml.cli import during
from caraml.cli.after import FILTER, JSON, chosen, out, records_in
from caraml.cli.command import Group, above_0, argument, file, folders, say
from caraml.errors import CaramlError, SweepError
from caraml.plan.site import read_site
from caraml.wait import NOT_IN_TIME
from results.archive import MOST_GB
from results.errors import RecordError
from results.history import database
from results.history.judge import Verdict, read_known, verdict_data, verdict_of
from results.history.reframe import write_reframe
from results.history.series import series_of, time_d
from results.record.records import Record, Skipped
from results.record.values import count, plain, rounded
from results.show.notebook import frame_of
from results.show.tables import table as tables
from results.show.tables.history import history_data, history_rows
from results.verdicts.outcome import exit_code
from results.yaml_files import YamlError, read_yaml


COMMANDS, ACTIONS = Group(), Group()
DB = file("--db", "the history; default: history_db of site.yaml")
KNOWN = file("--known", "changes that were acknowledged, each counts no more: a YAML file")
SINCE = argument("--since", default="", metavar="DATE", help="only changes from this day on, such as 2026-03-09")
THRESHOLD = argument(
    "--threshold", type=above_0, default=2.0, metavar="PERCENT", help="what counts as worse; default: %(default)g"
)
WAIT = argument("--limit", type=above_0, metavar="S", help="exit with 3 if the jobs take longer")


def _add_actions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, action in ACTIONS.items():
        added = actions.add_parser(name, description=action.description, help=action.help)
        for add_to in action.arguments:
            add_to(added)


@COMMANDS.command(_add_actions)
def history(options: argparse.Namespace) -> int:
    """Keep the results of a machine over time, and judge whether it got worse."""
    return ACTIONS[options.action].run(options)


@ACTIONS.command(folders(), DB)
def add(options: argparse.Namespace) -> int:
    """Add results, each once."""
    return _say_added(_db(options), database.add(_db(options), records_in(options.folders).records))


@ACTIONS.command(
    argument("archives", type=Path, nargs="+", metavar="ARCHIVE", help="a file written by 'caraml archive'"),
    argument("--most-gb", type=above_0, default=MOST_GB, metavar="GB", help="as of 'caraml verify'"),
    DB,
)
def import_(options: argparse.Namespace) -> int:
    """Add the results of archives whose files are unchanged."""
    codes = []
    for archive in options.archives:
        added, skipped = database.add_archive(_db(options), archive, options.most_gb)
        codes.append(_say_added(_db(options), added, skipped))
    return max(codes)


def _say_added(path: Path, added: database.Added, skipped: Sequence[Skipped] = ()) -> int:
    print(f"{path}: {count(added.new, 'record')} added, {added.known} were there")
    for sentence in [*(f"skipped: {one}" for one in skipped), *added.refused]:
        say(sentence)
    return int(bool(added.refused))


@ACTIONS.command(
    DB,
    FILTER,
    argument("--last", type=int, default=10, metavar="N", help="days with runs that count; default: %(default)d"),
    argument("--format", choices=tables.FORMS, default="text", help="default: %(default)s"),
    JSON,
)
def show(options: argparse.Namespace) -> int:
    """Print the last value of each point, with the median and the trend of the last ones."""
    if options.last < 1:
        raise RecordError(f"--last {options.last} was asked for: at least 1 day is needed")
    series = series_of(_records(options))
    if options.json:
        print(json.dumps([history_data(one, options.last) for one in series], indent=1))
    else:
        rows = history_rows(series, options.last, plain if options.format == "csv" else rounded)
        print(tables.render_rows(tables.without_empty_columns(rows), options.format))
    return 0


@ACTIONS.command(DB, FILTER, SINCE, THRESHOLD, KNOWN, out(default=Path("history.html")))
def report(options: argparse.Namespace) -> int:
    """Write a page with each point over time, and the changes of driver, container and code."""
    from results.show.page.history import write_history

    write_history(_verdicts(options), options.threshold / 100, options.out)
    print(options.out)
    return 0


@ACTIONS.command(DB, FILTER, SINCE, THRESHOLD, KNOWN, JSON)
def check(options: argparse.Namespace) -> int:
    """Judge the history; exits with 1 if a point got worse, with 3 if its runs cannot decide."""
    verdicts = _verdicts(options)
    if options.json:
        print(json.dumps([verdict_data(one) for one in verdicts], indent=1))
    else:
        for one in verdicts:
            new = [finding for finding in one.findings if not finding.is_known]
            lines = [*(f"{finding.outcome.value}: {finding.text}" for finding in new), *one.reasons]
            print("\n  ".join([f"{one.series.name}: {one.outcome.value}", *lines]))
    return exit_code(one.outcome for one in verdicts)


@ACTIONS.command(
    DB,
    SINCE,
    THRESHOLD,
    KNOWN,
    WAIT,
    argument("workflow", type=Path, metavar="WORKFLOW", help="such as jube/llm.yaml"),
    argument("jube", nargs=argparse.REMAINDER, metavar="...", help="options of 'jube run', such as --tag H200"),
)
def run(options: argparse.Namespace) -> int:
    """Run a workflow, wait for it, add its results and judge the history; exits as wait and check do."""
    results = _results_of(options.workflow, options.jube)
    _db(options)  # found wrong before hours of jobs
    subprocess.run([os.environ.get("JUBE", "jube"), "run", str(options.workflow), *options.jube], check=False)
    options.folders, options.filter, options.json = [results], [], False
    options.interval, options.retry_failed, options.keep = 10.0, False, False
    codes = [during.wait(options)]
    if codes[0] != NOT_IN_TIME:
        codes += [add(options), check(options)]
    return 1 if 1 in codes else max(codes)


def _results_of(workflow: Path, jube: Sequence[str]) -> Path:
    """Return the folder into which JUBE writes the runs of a workflow."""
    if "--outpath" in jube[:-1]:
        return Path(jube[jube.index("--outpath") + 1])
    try:
        return workflow.parent / str(read_yaml(workflow)["outpath"])
    except (YamlError, KeyError, TypeError) as error:
        raise SweepError(
            f"{workflow} is no workflow with an outpath ({error}): give one such as jube/llm.yaml"
        ) from error


@ACTIONS.command(
    DB,
    FILTER,
    argument("--format", choices=("csv", "parquet", "reframe"), required=True, help="reframe: its performance logs"),
    out("file; for reframe a folder, such as perflogs", None),
)
def export(options: argparse.Namespace) -> int:
    """Write the history for other programs: a row for each run."""
    if options.out is None:
        raise RecordError(f"--format {options.format} is written to a place: name it with --out")
    records = _records(options)
    if options.format == "reframe":
        print(f"{options.out}: {count(len(write_reframe(records, options.out)), 'log')}")
        return 0
    frame = frame_of(records)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(options.out, index=False) if options.format == "csv" else frame.to_parquet(options.out, index=False)
    print(f"{options.out}: {count(len(frame), 'run')}")
    return 0


def _db(options: argparse.Namespace) -> Path:
    """Return the file of the history; raises CaramlError if neither an option nor a site names it."""
    if options.db is None:
        try:
            options.db = Path(read_site("").history_db)
        except CaramlError as error:
            raise CaramlError(f"{error}; or name the history with --db") from error
    return Path(options.db)


def _records(options: argparse.Namespace) -> list[Record]:
    return chosen(database.read([_db(options)]), options.filter)


def _verdicts(options: argparse.Namespace) -> list[Verdict]:
    since_d = time_d(options.since) if options.since else -math.inf
    if math.isnan(since_d):
        raise RecordError(f"--since {options.since} was asked for: write a day as 2026-03-09")
    known = read_known(options.known) if options.known else []
    series = series_of(_records(options))
    return [verdict_of(one, options.threshold / 100, since_d, known) for one in series]
