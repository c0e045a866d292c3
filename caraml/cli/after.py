"""Commands on the results of sweeps."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from caraml.cli.command import Argument, Group, argument, either, file, flag, folders, repeated, say
from caraml.errors import SweepError
from caraml.plan.site import read_site
from caraml.sweep import no_results, run_folder
from jpwr.process.whole_file import replaced, write_whole
from record.values import count, sort_key
from results.files.quantities import QUANTITIES
from results.find.records import Record, RecordError
from results.frames import csv_text, points_frame, runs_frame
from results.load import Loaded, below, load
from results.points.repeats import by_point
from results.show.tables import table as tables
from results.show.tables.accept import tender_text, verdicts_json
from results.show.tables.cells import FORMS, Table, rendered
from results.show.tables.comparison import comparison_data, comparison_text
from results.show.tables.doubts import alike
from results.show.tables.reads import file_table, of_reads, read_table
from results.show.tables.regions import region_table
from results.show.tables.table import place_view, point_table, record_table
from results.verdicts import compare as comparing
from results.verdicts.outcome import exit_code
from results.verdicts.requirements import Requirements, read_requirements
from results.verdicts.tender.award import judge_tender
from results.verdicts.tender.offers import names_of_offers
from results.verdicts.tender.pledge import Pledge, read_pledge

COMMANDS = Group()
TITLES = ("ours", "caraml")
PARQUET = "parquet"
ACHIEVABLE = QUANTITIES["achievable_percent"].path
OWN_ORDER = ("pivot", "regions", "reads")
SHAPES = (*OWN_ORDER, "repeats", "titles", "sort")

FILTER = repeated("--filter", "'COLUMN=TEXT'", "only runs that match, such as 'devices=4'; may be repeated")
METER = repeated(
    "--meter",
    "FILE",
    "a meter's CSV of timestamp, watts and node: energy at the supply, grade Q3; may be repeated",
    type=Path,
)
NODE_CHECK = repeated(
    "--node-check",
    "FOLDER",
    "a node check, for the column of achievable FLOP/s; default: those among the results, else published figures",
    type=Path,
)
OFFER = repeated(
    "--offer",
    "NAME=FOLDER",
    "name the offer in a folder; folders with one system tag are several offers, unless they have one name",
)
REQUIREMENTS = "requirements, in the form of requirements.example.yaml"
PLEDGE = file("--pledge", "with requirements: a vendor's pledge, in the form of pledge.example.yaml")
SIGNERS = file("--signers", "refuse the pledge unless one of these signed it: lines of a name and a public key")
JSON = flag("--json", "print JSON for programs, with all digits")
FORMAT = argument(
    "--format", choices=FORMS, default="text", help="csv has every column and all digits; default: %(default)s"
)
ALL = flag("--all", "every column; default: those that are always needed, and those that distinguish rows")


def out(help: str = "default: %(default)s", default: Path | None = None) -> Argument:
    """Describe the file that a command writes."""
    return argument("-o", "--out", type=Path, default=default, metavar="FILE", help=help)


@COMMANDS.command(
    folders(),
    argument(
        "--format",
        choices=[*FORMS, PARQUET],
        default="text",
        help="csv and parquet have every column and all digits; default: %(default)s",
    ),
    ALL,
    out("write the table to this file; parquet needs it"),
    FILTER,
    METER,
    NODE_CHECK,
    argument("--sort", metavar="COLUMN", help="sort by a column, such as 'tokens/s'"),
    flag("--largest-first", "with --sort: in descending order"),
    argument("--tier", type=float, metavar="MB/S", help="with --reads: bandwidth of another storage"),
    either(
        flag("--repeats", "one row per point: median, interval, quality"),
        flag("--regions", "one row per region: the time of a step by its parts"),
        flag("--reads", "data read, and the effect of a faster storage"),
        argument("--titles", choices=TITLES, help="column titles; caraml: those of the original suite"),
        argument("--pivot", metavar="KEY", help="one value by devices and batch, such as metrics.tokens_per_s"),
    ),
)
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


def _check_table(options: argparse.Namespace) -> None:
    """Raise RecordError for an option that would be ignored."""
    shaped = [shape for shape in SHAPES if getattr(options, shape)]
    if options.largest_first and not options.sort:
        raise RecordError("--largest-first needs --sort COLUMN")
    if options.sort and shaped[0] in OWN_ORDER:
        raise RecordError(f"--{shaped[0]} has its own order: leave out --sort")
    if options.format == PARQUET and (set(shaped) - {"repeats", "sort"} or not options.out):
        why = f"without --{shaped[0]}" if shaped else "and is written to a file: name it with --out"
        raise RecordError(f"--format parquet has a row for each run or, with --repeats, for each point, {why}")
    if options.tier is not None and not (options.reads and 0 < options.tier < math.inf):
        raise RecordError("--tier is a storage's bandwidth in MB/s, above 0, and needs --reads")


def _frame(records: Sequence[Record], options: argparse.Namespace) -> Any:
    """Return the frame of runs or of points, in the order of the table."""
    points, runs = by_point(records), sorted(records, key=sort_key)
    table = point_table(points) if options.repeats else record_table(runs)
    order = table.order(options.sort, options.largest_first) if options.sort else range(len(table.rows))
    return points_frame([points[at] for at in order]) if options.repeats else runs_frame([runs[at] for at in order])


def _rendered(records: Sequence[Record], options: argparse.Namespace) -> str:
    everything = is_whole(options)
    if options.format == "csv" and not {*OWN_ORDER, "titles"} & {name for name in SHAPES if getattr(options, name)}:
        return str(csv_text(_frame(records, options))).rstrip("\n")
    wanted = [*([options.sort] if options.sort else []), *([ACHIEVABLE] if options.node_check else [])]
    points = by_point(records) if options.repeats or options.regions or options.reads else []
    notes: Sequence[str] = ()
    if options.pivot:
        shown = tables.pivot_table(records, options.pivot)
    elif options.repeats:
        shown = _sorted(point_table(points), options).needed(everything, wanted)
        notes = tables.within_limits(points)
    elif options.regions:
        if not (found := region_table(points)):
            raise RecordError("no good run has times of regions: measure with this version of the suite")
        shown = place_view(found, everything)
    elif options.reads:
        if not (found := read_table(points)):
            raise RecordError("no good run has a profile of its reads: run with the tag 'io'")
        shown = place_view(found, everything)
        notes = [rendered(place_view(file_table(points), everything), "text"), *of_reads(points, options.tier)]
    else:
        of_records = tables.original_table if options.titles == "caraml" else record_table
        shown = _sorted(of_records(sorted(records, key=sort_key)), options)
        if options.format != "csv":  # which has empty columns, too
            shown = shown.needed(everything or bool(options.titles), wanted)
    return "\n".join([printed(shown, options.format), *(notes if options.format == "text" else ())])


def _sorted(shown: Table, options: argparse.Namespace) -> Table:
    return shown.in_order(options.sort, options.largest_first) if options.sort else shown


def is_whole(options: argparse.Namespace) -> bool:
    """Return whether a table has all columns: for a reader who asks, and for programs."""
    return bool(options.all) or options.format == "csv"


def printed(shown: Table, form: str) -> str:
    """Return a table in one of the forms; print the sentences on its other columns unless the text has them."""
    for note in shown.notes if form != "text" else ():
        say(note)
    return rendered(shown, form)


@COMMANDS.command(
    folders(),
    out("an .html; default: %(default)s", Path("report.html")),
    METER,
    NODE_CHECK,
    file("--prices", "add costs, from prices in the form of prices.example.yaml"),
    file("--requirements", REQUIREMENTS),
    PLEDGE,
    SIGNERS,
    OFFER,
)
def report(options: argparse.Namespace) -> int:
    """Write a page that ranks the systems with their uncertainty, and its plots as PNG next to it."""
    from results.show.page.report import check_page, write_report
    from results.verdicts.cost import read_prices

    check_page(options.out)
    costs = read_prices(options.prices) if options.prices else None
    requirements = read_requirements(options.requirements) if options.requirements else None
    pledge = _pledge(options, requirements)
    offers = names_of_offers(options.offer, options.folders)
    found = loaded(options.folders, options.node_check, meters=options.meter, offers=offers, costs=costs)
    _say_offers(found.tags)
    for system, tag in found.tags.items():
        if costs and tag in costs.systems:
            costs = replace(costs, systems={**costs.systems, system: costs.systems.get(system, costs.systems[tag])})
    page, *_ = write_report(found.records, found.skipped, options.out, costs, requirements, pledge)
    print(page)
    return 0


@COMMANDS.command(
    folders(), out("a new or empty folder, or an older site; default: %(default)s", Path("public")), FILTER
)
def site(options: argparse.Namespace) -> int:
    """Write a folder of static pages over all results, to publish: systems, workloads, points and their records."""
    from results.show.page.site import files_of_site, write_site

    files_of_site(options.out)  # an error after the work would waste it
    found = loaded(options.folders, conditions=options.filter)
    say(f"{count(len(found.records), 'record')} read")
    files = write_site(found.records, found.skipped, options.out)
    print(f"{options.out / 'index.html'}: open it in a browser, or publish the folder, which has {files} files")
    return 0


@COMMANDS.command(
    folders(), file("--requirements", REQUIREMENTS, required=True), PLEDGE, SIGNERS, OFFER, FILTER, METER, JSON
)
def accept(options: argparse.Namespace) -> int:
    """Judge results by requirements and a pledge; exits with 1 if one is not met, with 3 if one cannot be decided."""
    requirements = read_requirements(options.requirements)
    pledge = _pledge(options, requirements)
    offers = names_of_offers(options.offer, options.folders)
    found = loaded(options.folders, conditions=options.filter, meters=options.meter, offers=offers)
    _say_offers(found.tags)
    records, skipped = found.records, found.skipped
    if options.filter:  # skipped folders of other systems do not matter
        systems = {record.system for record in records}
        skipped = [file for file in skipped if any(map(file.may_be_of, systems))]
    tender = judge_tender(by_point(records), requirements, pledge, skipped)
    if not tender.outcomes:
        raise RecordError("the requirements have no list 'must': add one")
    code = exit_code(tender.outcomes)
    print(verdicts_json(tender, code, skipped) if options.json else tender_text(tender))
    return code


@COMMANDS.command(
    folders(help="two or more folders of results"),
    argument("--baseline", type=Path, metavar="FOLDER", help="the folder that counts as 1; default: the first"),
    FILTER,
    METER,
    JSON,
)
def compare(options: argparse.Namespace) -> int:
    """Print speed-up and energy of one set of results over another, point by point."""
    base = options.baseline or options.folders[0]
    if base not in options.folders:
        raise RecordError(f"--baseline {base} is not one of the folders {', '.join(map(str, options.folders))}")
    others = [folder for folder in dict.fromkeys(options.folders) if folder != base] or options.folders[1:]
    if not others:
        raise RecordError(f"{base} is the only folder: give two folders or more")
    # Together, as a run that is in two folders is one run.
    found = loaded(list(dict.fromkeys(options.folders)), conditions=options.filter, meters=options.meter)
    ours = below(run_folder(base), found.records)
    for folder in map(run_folder, (base, *others)):
        if not below(folder, found.records):
            is_there = any(file.path != folder and file.path.is_relative_to(folder) for file in found.skipped)
            raise SweepError(f"{folder} has no result that counts" if is_there else no_results(folder))
    compared = {other: comparing.compare(ours, below(run_folder(other), found.records)) for other in others}
    if options.json:
        print(json.dumps([comparison_data(one, str(base), str(other)) for other, one in compared.items()], indent=1))
    else:
        print("\n\n".join(comparison_text(one, str(base), str(other)) for other, one in compared.items()))
    without_lines = [other for other, comparison in compared.items() if not comparison.lines]
    for other in without_lines:
        say(f"{other} has no point in common with {base}: nothing was compared")
    return int(bool(without_lines))


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
    for sentence in alike(map(str, found.skipped)):
        say(f"skipped: {sentence}")
    for note in found.notes:
        say(note)
    return found


def _pledge(options: argparse.Namespace, requirements: Requirements | None) -> Pledge | None:
    """Read the pledge, None without one; raises RecordError for an option that would be ignored."""
    if options.signers and not options.pledge:
        raise RecordError("--signers are those of a pledge: give --pledge FILE")
    if options.pledge and requirements is None:
        raise RecordError("--pledge needs --requirements FILE, which names the workloads")
    if requirements is None or not options.pledge:
        return None
    return read_pledge(options.pledge, requirements.workloads, options.signers)


def _say_offers(tags: Mapping[str, str]) -> None:
    """Print the names of systems that are in several offers."""
    for tag in dict.fromkeys(tags.values()):
        names = " and ".join(f"'{name}'" for name in tags if tags[name] == tag)
        say(f"{tag} is in several offers, listed as {names}: --offer NAME=FOLDER joins or renames them")
