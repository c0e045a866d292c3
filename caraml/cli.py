"""Flags and subcommands; what they do is elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from caraml.sweep import SweepError, problems, run_folder
from results import table
from results.records import RecordError, find_records


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="caraml", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help_text in (
        ("check", "did every point of a sweep succeed? Lists what did not, and exits with 1"),
        ("table", "print the results below some folders as a table"),
        ("report", "write an HTML page with table and plots, and the plots as PNG"),
    ):
        command = commands.add_parser(name, help=help_text, description=help_text)
        command.add_argument(
            "folders",
            nargs="+",
            type=Path,
            metavar="FOLDER",
            help="such as jube/llm_run/000000, or jube/llm_run for its last run",
        )
        if name == "report":
            command.add_argument("-o", "--out", type=Path, default=Path("report.html"), help="default: %(default)s")
    options = parser.parse_args(argv)
    try:
        return _COMMANDS[options.command](options)
    except (RecordError, SweepError, OSError) as error:
        print(f"caraml: {error}", file=sys.stderr)
        return 2


def _check(options: argparse.Namespace) -> int:
    found = [problem for folder in options.folders for problem in problems(run_folder(folder))]
    for problem in found:
        print(f"caraml: {problem}", file=sys.stderr)
    return 1 if found else 0


def _table(options: argparse.Namespace) -> int:
    records, skipped = find_records(run_folder(folder) for folder in options.folders)
    _tell(skipped)
    print(table.text_table(records))
    for failure in table.failures(records):
        print(failure)
    return 0


def _report(options: argparse.Namespace) -> int:
    from results.report import write_report

    records, skipped = find_records(run_folder(folder) for folder in options.folders)
    if not records:
        raise RecordError(f"there is no result below {', '.join(map(str, options.folders))}: run a sweep first")
    _tell(skipped)
    for path in write_report(records, skipped, options.out):
        print(path)
    return 0


def _tell(skipped: Sequence[str]) -> None:
    for sentence in skipped:
        print(f"caraml: skipped: {sentence}", file=sys.stderr)


_COMMANDS = {"check": _check, "table": _table, "report": _report}
