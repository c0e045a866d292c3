"""Flags and subcommands; what they do is elsewhere."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from caraml.doctor import BAD, examine, report
from caraml.images import ENDINGS, FORMATS, definition, make_image, read_image
from caraml.lint import lint
from caraml.site import REPOSITORY, SiteError, read_site
from caraml.sweep import SweepError, problems, run_folder
from caraml.systems import read_system, read_systems, systems_table
from caraml.wait import NOT_IN_TIME, check_open, retry_failed, wait
from results import table
from results.archive import verify, write_archive
from results.compare import broken, compare, comparison_text, read_requirement
from results.points import plain, point_rows, rounded
from results.published import published_text, read_published
from results.records import Record, RecordError, find_records
from results.statistics import by_point

TITLES = {"ours": table.COLUMNS, "caraml": table.CARAML_COLUMNS}
PUBLISHED_PLOTS = ("heat-maps", "bars")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="caraml", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help_text in (
        ("check", "is all in order? Of a workflow's file, what JUBE would ignore; of a sweep, every point that failed"),
        ("wait", "wait until the last job of a sweep has ended; exits with 1 when any failed"),
        ("table", "print the results below some folders as a table"),
        ("archive", "store results, traces and workflow in one file that can be checked"),
        ("report", "write a page, HTML or PDF, that says what is fastest, and how sure that is; its plots as PNG, too"),
    ):
        command = commands.add_parser(name, help=help_text, description=help_text)
        command.add_argument(
            "folders",
            nargs="+",
            type=Path,
            metavar="FOLDER",
            help="such as jube/llm_run/000000, or jube/llm_run for its last run"
            + ("; or a workflow such as jube/llm.yaml" if name == "check" else ""),
        )
        if name == "wait":
            command.add_argument("--retry-failed", action="store_true", help="first submit again what failed")
            command.add_argument("--interval", type=float, default=10, metavar="S", help="seconds between two looks")
            command.add_argument(
                "--limit", type=float, metavar="S", help="give up after so many seconds, with exit code 3"
            )
        if name == "table":
            command.add_argument("--format", choices=table.FORMS, default="text", help="default: %(default)s")
            command.add_argument(
                "--filter",
                action="append",
                default=[],
                metavar="'COLUMN=TEXT'",
                help="such as 'devices=4'; may be repeated",
            )
            command.add_argument("--sort", metavar="COLUMN", help="by its value, such as 'tokens/s'")
            command.add_argument("--largest-first", action="store_true", help="with --sort")
            command.add_argument("--repeats", action="store_true", help="one row per point: median, interval, quality")
            command.add_argument("--titles", choices=TITLES, default="ours", help="caraml: those of the original suite")
            command.add_argument("--pivot", metavar="KEY", help="one value, devices x batch: metrics.tokens_per_s")
        if name == "archive":
            command.add_argument("-o", "--out", type=Path, default=Path("results.tar.zst"), help="default: %(default)s")
        if name == "report":
            command.add_argument("-o", "--out", type=Path, default=Path("report.html"), help="default: %(default)s")
            command.add_argument("--prices", type=Path, metavar="FILE", help="state costs, after prices.example.yaml")
            command.add_argument("--published", action="store_true", help="draw published figures beside ours, marked")
    systems = commands.add_parser("systems", help="the systems that are described", description=_systems.__doc__)
    systems.add_argument("--system", metavar="TAG", help="only this one, all that is known of it")
    systems.add_argument("--get", metavar="KEY", help="with --system: only this value")
    compared = commands.add_parser("compare", help="one set of results over another", description=_compare.__doc__)
    compared.add_argument("folders", nargs=2, type=Path, metavar="FOLDER", help="results, such as jube/llm_run/000000")
    compared.add_argument("--baseline", type=Path, metavar="FOLDER", help="which of them is 1; default: the first")
    compared.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="'NAME>=N'",
        help="exit with 1 unless the other one keeps it: a number of its records, or ratio or energy_ratio",
    )
    published = commands.add_parser("published", help="figures that others published", description=_published.__doc__)
    published.add_argument("words", nargs="*", metavar="WORD", help="only those with these words, such as GPT-800M")
    published.add_argument("--plot", choices=PUBLISHED_PLOTS, help="draw instead of print")
    published.add_argument("-o", "--out", type=Path, help="file of the plot, PNG or SVG; default: its name and .png")
    verified = commands.add_parser("verify", help="check an archive", description=_verify.__doc__)
    verified.add_argument("archive", type=Path, metavar="ARCHIVE", help="of 'caraml archive'")
    doctor = commands.add_parser("doctor", help="is all there for the first job?", description=_doctor.__doc__)
    doctor.add_argument("--system", required=True, metavar="TAG", help="see 'caraml systems'")
    image = commands.add_parser("image", help="make a container image", description=_image.__doc__)
    image.add_argument("name", metavar="NAME", help="of containers/images.yaml")
    image.add_argument("--runtime", choices=ENDINGS, help="default: the site's container_runtime, else apptainer")
    image.add_argument("--print", choices=FORMATS, dest="form", help="print its definition and make nothing")
    options = parser.parse_args(argv)
    try:
        return _COMMANDS[options.command](options)
    except BrokenPipeError:  # who reads, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (RecordError, SiteError, SweepError, OSError) as error:
        print(f"caraml: {error}", file=sys.stderr)
        return 2


def _check(options: argparse.Namespace) -> int:
    found: list[object] = []
    for path in options.folders:
        found += lint(path) if path.suffix == ".yaml" else problems(run_folder(path))
    for problem in dict.fromkeys(found):
        print(f"caraml: {problem}", file=sys.stderr)
    return 1 if found else 0


def _wait(options: argparse.Namespace) -> int:
    runs = [run_folder(folder) for folder in options.folders]
    for run in runs:
        check_open(run)
        if options.retry_failed:
            print(f"caraml: {len(retry_failed(run))} points were submitted again", flush=True)
    for run in runs:
        if not wait(run, options.interval, options.limit):
            print(f"caraml: {run} has not ended within {options.limit:g} s", file=sys.stderr)
            return NOT_IN_TIME
    return _check(options)


def _table(options: argparse.Namespace) -> int:
    records = table.select(_records(options.folders)[0], options.filter)
    if not records:
        raise RecordError("no record is left to show: look at the folders, and at --filter")
    print(_rendered(records, options))
    # A table for a machine or a document is nothing but that.
    for failure in table.failures(records):
        print(failure, file=sys.stdout if options.format == "text" else sys.stderr)
    return 0


def _rendered(records: Sequence[Record], options: argparse.Namespace) -> str:
    if options.pivot:
        return table.pivot_table(records, options.pivot)
    if options.repeats:
        number = plain if options.format == "csv" else rounded
        return table.render_rows(point_rows(by_point(records), number=number), options.format)
    ordered = sorted(records, key=table.sort_key)
    if options.sort:
        ordered = table.in_order(ordered, options.sort, options.largest_first)
    return table.render(ordered, options.format, TITLES[options.titles])


def _compare(options: argparse.Namespace) -> int:
    """Speed-up and energy of each point that both have, and their geometric means."""
    base, other = options.folders
    if options.baseline:
        if options.baseline not in options.folders:
            raise RecordError(f"--baseline {options.baseline} is none of the folders {base} and {other}")
        base, other = options.baseline, next((path for path in options.folders if path != options.baseline), other)
    requirements = [read_requirement(text) for text in options.require]
    (ours, _), (theirs, _) = _records([base]), _records([other])
    comparison = compare(ours, theirs)
    print(comparison_text(comparison, str(base), str(other)))
    found = broken(requirements, comparison, theirs)
    for sentence in found:
        print(f"caraml: {sentence}", file=sys.stderr)
    return 1 if found else 0


def _report(options: argparse.Namespace) -> int:
    from results.cost import read_prices
    from results.report import write_report

    records, skipped = _records(options.folders)
    costs = read_prices(options.prices) if options.prices else None
    for path in write_report(records, skipped, options.out, costs, options.published):
        print(path)
    return 0


def _published(options: argparse.Namespace) -> int:
    """Published figures with their sources as a table, or one of CARAML's plots of them."""
    from results import published_plots

    if not options.plot:
        print(published_text(read_published(), options.words))
        return 0
    if options.plot == "bars":
        chart = published_plots.published_bars(read_published())
    else:
        chart = published_plots.published_heat_maps("resnet50", "ResNet-50", "images")
    path = options.out or Path(f"{chart.name}.png")
    if path.suffix.lower() not in (".png", ".svg"):
        raise RecordError(f"--out {path}: a plot is a .png or a .svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(chart.svg().encode() if path.suffix.lower() == ".svg" else chart.png())
    print(path)
    return 0


def _archive(options: argparse.Namespace) -> int:
    runs = write_archive([run_folder(folder) for folder in options.folders], REPOSITORY / "jube", options.out)
    print(f"{options.out}: {runs} runs")
    return 0


def _verify(options: argparse.Namespace) -> int:
    """Check each file of an archive, and compute every number of its tables again from the traces."""
    problems, runs = verify(options.archive)
    for problem in problems:
        print(f"caraml: {problem}", file=sys.stderr)
    if not problems:
        print(f"{options.archive}: {runs} runs, all files as they were, all numbers as their traces give them")
    return 1 if problems else 0


def _systems(options: argparse.Namespace) -> int:
    """The systems of jube/include/systems.yaml: their tags, and what the tables know of them."""
    if options.get and not options.system:
        raise SiteError("--get needs --system: of which system?")
    if not options.system:
        print(systems_table(read_systems()))
        return 0
    block = read_system(options.system)
    if options.get and options.get not in block:
        raise SiteError(f"a system has no key {options.get}: the keys are {', '.join(block)}")
    print(block[options.get] if options.get else "\n".join(f"{key}: {value}" for key, value in block.items()))
    return 0


def _doctor(options: argparse.Namespace) -> int:
    """Look whether this machine has what a system's jobs need; exits with 1 when something is not there."""
    findings = examine(options.system)
    print(report(findings))
    return 1 if any(finding.state == BAD for finding in findings) else 0


def _image(options: argparse.Namespace) -> int:
    """Build or pull an image into the container folder, unless it is there."""
    image, site = read_image(options.name), read_site("")
    if options.form:
        print(definition(image, options.form), end="")
        return 0
    chosen = options.runtime or site["container_runtime"]
    runtime = chosen if chosen in ENDINGS else "apptainer"
    print(make_image(image, runtime, Path(site["container_folder"])))
    return 0


def _records(folders: Sequence[Path]) -> tuple[list[Record], list[str]]:
    """All records below some folders, and what was skipped, which is also told; raises RecordError without a record."""
    records, skipped = find_records(run_folder(folder) for folder in folders)
    for sentence in skipped:
        print(f"caraml: skipped: {sentence}", file=sys.stderr)
    if not records:
        raise RecordError(f"there is no result below {', '.join(map(str, folders))}: run a sweep first")
    return records, skipped


_COMMANDS = {
    "check": _check,
    "wait": _wait,
    "table": _table,
    "report": _report,
    "compare": _compare,
    "published": _published,
    "archive": _archive,
    "verify": _verify,
    "systems": _systems,
    "image": _image,
    "doctor": _doctor,
}
