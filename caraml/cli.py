"""Subcommands and their flags; what they do is elsewhere, and what starts them is in __main__.py."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from caraml.doctor import examine, identify, report
from caraml.errors import CaramlError, SchedulerError, SiteError, SweepError
from caraml.finding import BAD
from caraml.images import ENDINGS, FORMATS, definition, make_image, read_image
from caraml.installation import checkout, missing_package
from caraml.lint import lint
from caraml.paths import wrong_path
from caraml.site import read_site
from caraml.sweep import is_run, missing_runs, no_results, problems, run_folder
from caraml.systems import read_system, read_systems, systems_table
from caraml.wait import NOT_IN_TIME, check_open, check_schedulers, retry_failed, wait
from jpwr import __version__
from jpwr.say import printable
from results.archive import MOST_GB, verify, write_archive
from results.joined.meter import add_meter, read_meter
from results.notebook import frame_of
from results.points.repeats import PointResults, by_point
from results.published import read_published
from results.records import RESULT_NAME, Found, Record, RecordError, Skipped, find_records
from results.tables import table
from results.tables.accept import counts_text, verdict_rows, verdicts_json
from results.tables.comparison import comparison_data, comparison_text
from results.tables.doubts import alike
from results.tables.points import point_rows, points_in_order
from results.tables.published import published_text
from results.tables.reads import file_rows, of_reads, read_rows
from results.tables.regions import region_rows
from results.tables.states import closing_notes, refusals, state_rows
from results.tracking.servers import MODES, log_to_mlflow, log_to_wandb
from results.tracking.tensorboard import log_to_tensorboard
from results.values import count, plain, rounded, sort_key
from results.verdicts.accept import accept
from results.verdicts.compare import broken, compare, read_requirement
from results.verdicts.offers import names_of_offers, split_offers
from results.verdicts.outcome import exit_code
from results.verdicts.requirements import read_requirements
from results.workloads import workloads

TITLES = {"ours": table.COLUMNS, "caraml": table.CARAML_COLUMNS}
PARQUET = "parquet"
PUBLISHED_PLOTS = ("heat-maps", "bars")
REQUIREMENTS = "what must be reached, after requirements.example.yaml"
A_SWEEP = "such as jube/llm_run/000000, or jube/llm_run for its last run"


EXIT_CODES = f"""exit codes:
  0    done, and as it should be
  1    a point failed, a requirement is not met, or a file is not as it was
  2    the command cannot do what was asked: one sentence on stderr gives the reason
  3    accept, compare: a requirement cannot be decided; wait: not ended within --limit
  {os.EX_SOFTWARE}   an internal error: no result
  130  interrupted"""


class Command(NamedTuple):
    """One subcommand: what it is for, what it does with its options, and how these are added."""

    help: str
    run: Callable[[argparse.Namespace], int]
    add: Callable[[argparse.ArgumentParser], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return COMMANDS[options.command].run(options)
    except BrokenPipeError:  # who reads, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except SchedulerError as error:
        _say(f"{error}: ask again when it does")
    except ImportError as error:
        _say(missing_package(error))
    except (CaramlError, RecordError, OSError) as error:
        _say(error)
    return 2


def _say(sentence: object) -> None:
    """On stderr; of names in it, such as those in somebody's archive, what no terminal shows is escaped."""
    print("caraml:", "\n".join(printable(line) for line in str(sentence).split("\n")), file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one sentence, and takes no flag by its beginning."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"caraml: {message}; '{self.prog} --help' lists what there is\n")


def _workloads() -> str:
    """A line on each; nothing where they cannot be read, which is no reason to say nothing of the commands."""
    try:
        known = [f"  {facts.title}: jube/{facts.workflow}.yaml\n" for facts in workloads().values()]
    except (ImportError, RecordError):
        return ""
    return f"workloads:\n{''.join(known)}\n"


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS)) + 2
    overview = "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:{width}}{COMMANDS[name].help}" for name in group)])
        for title, group in GROUPS.items()
    )
    parser = _Parser(
        prog="caraml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXIT_CODES,
        usage="caraml [-h] [--version] COMMAND ...",
        description="See what a machine needs to run the benchmarks, watch over sweeps, and read their results.\n\n"
        f"{overview}\n\n{_workloads()}'caraml COMMAND --help' tells more of one.",
    )
    parser.add_argument("--version", action="version", version=f"caraml {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS, prog="caraml")
    for name, command in COMMANDS.items():
        text = f"{command.help[0].upper()}{command.help[1:]}."
        command.add(commands.add_parser(name, description=text))
    return parser


def _add_doctor(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--system",
        metavar="TAG",
        help="see 'caraml systems'; without it: which tag fits the accelerators of this machine",
    )


def _doctor(options: argparse.Namespace) -> int:
    findings = examine(options.system) if options.system else identify()
    print(report(findings))
    return 1 if any(finding.state == BAD for finding in findings) else 0


def _add_systems(command: argparse.ArgumentParser) -> None:
    command.add_argument("--system", metavar="TAG", help="only this one, all that is known of it")
    command.add_argument("--get", metavar="KEY", help="with --system: only this value")


def _systems(options: argparse.Namespace) -> int:
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


def _add_image(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="of containers/images.yaml")
    how = command.add_mutually_exclusive_group()
    how.add_argument("--runtime", choices=ENDINGS, help="default: the site's container_runtime, else apptainer")
    how.add_argument("--print", choices=FORMATS, dest="form", help="print its definition and make nothing")


def _image(options: argparse.Namespace) -> int:
    image = read_image(options.name)
    if options.form:
        print(definition(image, options.form), end="")
        return 0
    site = read_site("")
    chosen = options.runtime or site["container_runtime"]
    runtime = chosen if chosen in ENDINGS else "apptainer"
    print(make_image(image, runtime, Path(site["container_folder"])))
    return 0


def _add_folders(command: argparse.ArgumentParser, more: str = "") -> None:
    command.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help=A_SWEEP + more)


def _add_check(command: argparse.ArgumentParser) -> None:
    _add_folders(command, "; or a workflow such as jube/llm.yaml")


def _check(options: argparse.Namespace) -> int:
    found: list[object] = []
    for path in options.folders:
        if path.suffix != ".yaml":
            found += problems(run_folder(path))
            continue
        found += lint(path)
        if wrong := wrong_path(path.resolve(), "the workflow"):
            found.append(wrong)
    for problem in dict.fromkeys(found):
        _say(problem)
    return 1 if found else 0


def _add_wait(command: argparse.ArgumentParser) -> None:
    _add_folders(command)
    command.add_argument("--retry-failed", action="store_true", help="first submit again what failed")
    command.add_argument(
        "--interval",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="seconds between two looks, default %(default)g; a scheduler that stops answering is asked as often",
    )
    command.add_argument("--limit", type=_seconds, metavar="S", help="give up after so many seconds, with exit code 3")
    command.add_argument(
        "--keep", action="store_true", help="leave the Jobs of Kubernetes in the cluster when they have ended"
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _gigabytes(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value


def _wait(options: argparse.Namespace) -> int:
    runs = [run_folder(folder) for folder in options.folders]
    for run in runs:
        check_open(run)
        check_schedulers(run)
    for run in runs:
        if options.retry_failed:
            again = count(len(retry_failed(run)), "point")
            print(f"caraml: submitted again: {again}", flush=True)
    for run in runs:
        if not wait(run, options.interval, options.limit, options.keep):
            _say(f"{run} has not ended within {options.limit:g} s")
            return NOT_IN_TIME
    return _check(options)


def _add_table(command: argparse.ArgumentParser) -> None:
    _add_folders(command)
    command.add_argument("--format", choices=[*table.FORMS, PARQUET], default="text", help="default: %(default)s")
    command.add_argument("--out", type=Path, metavar="FILE", help="write the table there, which parquet needs")
    _add_filter(command)
    _add_meter(command)
    command.add_argument("--sort", metavar="COLUMN", help="by its value, such as 'tokens/s'")
    command.add_argument("--largest-first", action="store_true", help="with --sort")
    shape = command.add_mutually_exclusive_group()
    shape.add_argument("--repeats", action="store_true", help="one row per point: median, interval, quality")
    shape.add_argument("--regions", action="store_true", help="one row per region: where the time of a step goes")
    shape.add_argument(
        "--states", action="store_true", help="experimental: one row per state, where the energy of a step goes"
    )
    shape.add_argument("--reads", action="store_true", help="what was read, and what a faster storage would give")
    shape.add_argument("--titles", choices=TITLES, help="caraml: those of the original suite")
    command.add_argument("--tier", type=float, metavar="MB/S", help="with --reads: a storage of that bandwidth")
    shape.add_argument("--pivot", metavar="KEY", help="one value, devices x batch: metrics.tokens_per_s")


def _add_filter(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="'COLUMN=TEXT'",
        help="only runs such as 'devices=4'; may be repeated",
    )


def _add_meter(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--meter",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a meter's CSV of timestamp, watts and node: energy at the supply, grade Q3; may be repeated",
    )


def _add_offer(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--offer",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="the offer that a folder belongs to, by default its own; a tag in two offers is two systems",
    )


def _split(found: Found, options: argparse.Namespace) -> dict[str, str]:
    """Tell the systems of several offers apart, and print their names; return their tags by these."""
    tags = split_offers(found, names_of_offers(options.offer, options.folders))
    for tag in dict.fromkeys(tags.values()):
        names = " and ".join(f"'{name}'" for name in tags if tags[name] == tag)
        _say(f"{tag} is in several offers, listed as {names}: --offer NAME=FOLDER joins or renames them")
    return tags


def _metered(records: Sequence[Record], meters: Sequence[Path]) -> None:
    """Give runs the energy that meters in the supply line measured, and say which were not measured."""
    for path in meters:
        for note in add_meter(records, read_meter(path)):
            _say(note)


def _chosen(records: Sequence[Record], conditions: Sequence[str]) -> list[Record]:
    """Those that keep all conditions; raises RecordError where none does."""
    chosen = table.select(records, conditions)
    if not chosen:
        raise RecordError(f"no record keeps {' and '.join(conditions)}: look at the table without --filter")
    return chosen


def _table(options: argparse.Namespace) -> int:
    if options.largest_first and not options.sort:
        raise RecordError("--largest-first needs --sort: by which column?")
    own_order = [shape for shape in ("pivot", "regions", "states", "reads") if getattr(options, shape)]
    if options.sort and own_order:
        raise RecordError(f"--{own_order[0]} has its own order: leave out --sort")
    shapes = ("pivot", "regions", "states", "reads", "repeats", "titles", "sort")
    shaped = [shape for shape in shapes if getattr(options, shape)]
    if options.format == PARQUET and (shaped or not options.out):
        why = f"without --{shaped[0]}" if shaped else "and is written to a file: name it with --out"
        raise RecordError(f"--format parquet has a row for each run, {why}")
    if options.tier is not None and not (options.reads and 0 < options.tier < math.inf):
        raise RecordError("--tier is a storage's bandwidth in MB/s, above 0, and needs --reads")
    records = _chosen(_records(options.folders)[0], options.filter)
    _metered(records, options.meter)
    if options.format == PARQUET:
        frame_of(records).to_parquet(options.out, index=False)
    elif options.out:
        options.out.write_text(f"{_rendered(records, options)}\n", encoding="utf-8")
    else:
        print(_rendered(records, options))
    # A table for a machine or a document is nothing but that.
    for failure in table.failures(records):
        print(failure, file=sys.stdout if options.format == "text" else sys.stderr)
    return 0


def _rendered(records: Sequence[Record], options: argparse.Namespace) -> str:
    if options.pivot:
        return table.render_rows(table.pivot_rows(records, options.pivot), options.format)
    if options.repeats:
        points = by_point(records)
        if options.sort:
            points = points_in_order(points, options.sort, options.largest_first)
        return table.render_rows(
            point_rows(points, number=plain if options.format == "csv" else rounded), options.format
        )
    if options.regions:
        rows = region_rows(by_point(records), plain if options.format == "csv" else rounded)
        if not rows:
            raise RecordError("no good run tells where its time went: its version was older, or it marked nothing")
        return table.render_rows(rows, options.format)
    if options.states:
        points = by_point(records)
        rows = state_rows(points, plain if options.format == "csv" else rounded)
        if not rows:
            reasons = refusals(points) or ["ask for it with the tag 'states'"]
            raise RecordError(f"no good run tells its states' energy: {'; '.join(reasons)}")
        notes = closing_notes(points) if options.format == "text" else []
        return "\n".join([table.render_rows(rows, options.format), *notes])
    if options.reads:
        return _reads(by_point(records), options)
    columns = TITLES[options.titles or "ours"]
    ordered = sorted(records, key=sort_key)
    if options.sort:
        ordered = table.in_order(ordered, options.sort, options.largest_first, columns)
    return table.render(ordered, options.format, columns)


def _reads(points: Sequence[PointResults], options: argparse.Namespace) -> str:
    number = plain if options.format == "csv" else rounded
    rows = read_rows(points, number)
    if not rows:
        raise RecordError("no good run tells what it read: ask for it with the tag 'io'")
    if options.format != "text":
        return table.render_rows(rows, options.format)
    files = table.render_rows(file_rows(points, number), options.format)
    return "\n".join([table.render_rows(rows, options.format), files, *of_reads(points, options.tier)])


def _add_compare(command: argparse.ArgumentParser) -> None:
    command.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="results; two or more of them")
    command.add_argument("--baseline", type=Path, metavar="FOLDER", help="which of them is 1; default: the first")
    _add_filter(command)
    _add_meter(command)
    command.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="'NAME>=N'",
        help="exit with 1 unless the others keep it, with 3 where that cannot be told: a number of their records, or "
        "ratio or energy_ratio; kept is what the whole 95 %% interval keeps",
    )
    command.add_argument("--json", action="store_true", help="for programs: every number as it is")


def _compare(options: argparse.Namespace) -> int:
    base = options.baseline or options.folders[0]
    if base not in options.folders:
        raise RecordError(f"--baseline {base} is none of the folders {', '.join(map(str, options.folders))}")
    others = [folder for folder in dict.fromkeys(options.folders) if folder != base] or options.folders[1:]
    if not others:
        raise RecordError(f"{base} alone is compared with nothing: name two folders or more")
    requirements = [read_requirement(text) for text in options.require]
    of_folders = {folder: _records([folder]) for folder in (base, *others)}
    chosen = {folder: _chosen(found.records, options.filter) for folder, found in of_folders.items()}
    _metered([record for records in chosen.values() for record in records], options.meter)
    found = []
    for other in others:
        comparison = compare(chosen[base], chosen[other])
        skipped = [*of_folders[base].skipped, *of_folders[other].skipped]
        found.append((other, comparison, broken(requirements, comparison, chosen[other], skipped)))
    if options.json:
        told = [comparison_data(one, str(base), str(other), faults) for other, one, faults in found]
        print(json.dumps(told, indent=1))
    else:
        print("\n\n".join(comparison_text(one, str(base), str(other)) for other, one, _ in found))
    for other, _, faults in found:
        for _, sentence in faults:
            _say(f"{f'{other}: ' if len(found) > 1 else ''}{sentence}")
    apart = [other for other, comparison, _ in found if not comparison.lines]
    for other in apart:
        _say(f"{other} has no point of {base}: nothing was compared")
    return exit_code(outcome for _, _, faults in found for outcome, _ in faults) or int(bool(apart))


def _add_track(command: argparse.ArgumentParser) -> None:
    _add_folders(command)
    command.add_argument("--mlflow", metavar="URI", help="a tracking server or store, such as sqlite:///mlflow.db")
    command.add_argument("--wandb", choices=MODES, help="offline: into the folder wandb, for 'wandb sync'")
    command.add_argument(
        "--tensorboard", type=Path, metavar="DIR", help="curves, distributions and files, for TensorBoard"
    )
    command.add_argument("--project", default="caraml", help="in Weights & Biases; default: %(default)s")


def _track(options: argparse.Namespace) -> int:
    if not (options.mlflow or options.wandb or options.tensorboard):
        raise RecordError("where to? give --mlflow URI, --wandb offline, --wandb online or --tensorboard DIR")
    records = [record for record in _records(options.folders)[0] if record.get("run_id")]  # others never ran
    if options.mlflow:
        _say_tracked(options.mlflow, len(records), log_to_mlflow(records, options.mlflow))
    if options.wandb:
        _say_tracked(f"wandb ({options.wandb})", len(records), log_to_wandb(records, options.wandb, options.project))
    if options.tensorboard:
        _say_tracked(str(options.tensorboard), len(records), log_to_tensorboard(records, options.tensorboard))
    return 0


def _say_tracked(place: str, runs: int, new: Sequence[str]) -> None:
    print(f"{place}: {len(new)} of {runs} runs logged" + (", the others are there" if len(new) < runs else ""))


def _add_report(command: argparse.ArgumentParser) -> None:
    _add_folders(command)
    command.add_argument("-o", "--out", type=Path, default=Path("report.html"), help="or a .pdf; default: %(default)s")
    _add_meter(command)
    command.add_argument("--prices", type=Path, metavar="FILE", help="state costs, after prices.example.yaml")
    command.add_argument("--requirements", type=Path, metavar="FILE", help=REQUIREMENTS)
    _add_offer(command)
    command.add_argument("--published", action="store_true", help="draw published figures beside ours, marked")


def _report(options: argparse.Namespace) -> int:
    from results.page.report import check_page, write_report
    from results.verdicts.cost import read_prices

    check_page(options.out)
    costs = read_prices(options.prices) if options.prices else None
    requirements = read_requirements(options.requirements) if options.requirements else None
    found = _records(options.folders)
    for system, tag in _split(found, options).items():
        if costs and tag in costs.systems:
            costs.systems.setdefault(system, costs.systems[tag])
    _metered(found.records, options.meter)
    for path in write_report(found.records, found.skipped, options.out, costs, options.published, requirements):
        print(path)
    return 0


def _add_predict(command: argparse.ArgumentParser) -> None:
    command.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help=A_SWEEP)
    command.add_argument(
        "--system", default="", help="of these runs, or of 'caraml systems': from its datasheet (experimental)"
    )
    command.add_argument("--size", default="", metavar="MODEL", help="of these runs, or another of the same workload")
    command.add_argument("--precision", default="", help="of these runs")
    command.add_argument("--devices", type=int, nargs="+", default=[], metavar="N", help="default: those measured")
    command.add_argument("--batch", type=int, nargs="+", default=[], metavar="B", help="default: those measured")
    command.add_argument("--format", choices=table.FORMS, default="text", help="default: %(default)s")
    _add_filter(command)
    command.add_argument(
        "--validate", action="store_true", help="how far predictions are off, on published points and on these runs"
    )
    command.add_argument(
        "--points", type=Path, metavar="FILE", help="with --validate: further points, as results/reference/training.csv"
    )


def _predict(options: argparse.Namespace) -> int:
    from caraml.prediction import Question, answer
    from results.prediction.predict import groups_of
    from results.prediction.validate import validated, validated_datasheets, validated_points
    from results.tables.prediction import disturbed_words, error_rows, prediction_rows

    if options.points and not options.validate:
        raise RecordError("--points are for --validate: predictions are made from runs")
    if not (options.folders or options.validate):
        raise RecordError(f"predicted from which runs? give a folder, {A_SWEEP}")
    points = by_point(_chosen(_records(options.folders)[0], options.filter)) if options.folders else []
    groups = groups_of(points)
    if options.validate:
        given = validated_points(options.points) if options.points else ()
        print(table.render_rows(error_rows([*validated(groups), *validated_datasheets(), *given]), options.format))
        return 0
    question = Question(options.system, options.size, options.precision, options.devices, options.batch)
    found = answer(points, groups, question)
    number = plain if options.format == "csv" else rounded
    if found.predictions:
        print(table.render_rows(prediction_rows(found.predictions, number), options.format))
    if options.format == "text" and found.predictions:
        print("PREDICTED, not measured, and not to be ranked with what was. Low and high: 95 of 100 are between them.")
    for sentence in [*(words for group in groups for words in disturbed_words(group)), *alike(found.refused)]:
        _say(sentence)
    return 0 if found.predictions and not found.refused else 1 if found.predictions else 2


def _add_accept(command: argparse.ArgumentParser) -> None:
    _add_folders(command)
    command.add_argument(
        "--requirements",
        type=Path,
        required=True,
        metavar="FILE",
        help=REQUIREMENTS,
    )
    _add_offer(command)
    _add_filter(command)
    _add_meter(command)
    command.add_argument("--json", action="store_true", help="for programs: every number as it is")


def _accept(options: argparse.Namespace) -> int:
    requirements = read_requirements(options.requirements)
    found = _records(options.folders)
    _split(found, options)
    records = _chosen(found.records, options.filter)
    _metered(records, options.meter)
    skipped = found.skipped
    if options.filter:  # it may have left out the systems of the others
        systems = {record["system"] for record in records}
        skipped = [one for one in skipped if any(map(one.may_be_of, systems))]
    verdicts = accept(by_point(records), requirements, skipped)
    code = exit_code(verdict.outcome for verdict in verdicts)
    if options.json:
        print(verdicts_json(verdicts, code, skipped))
    else:
        print(table.aligned(verdict_rows(verdicts), str.ljust))
        print(counts_text(verdicts))
    return code


def _add_published(command: argparse.ArgumentParser) -> None:
    command.add_argument("words", nargs="*", metavar="WORD", help="only those with these words, such as GPT-800M")
    command.add_argument("--plot", choices=PUBLISHED_PLOTS, help="draw all of them instead of printing")
    command.add_argument("-o", "--out", type=Path, help="file of the plot, PNG or SVG; default: its name and .png")


def _published(options: argparse.Namespace) -> int:
    if not options.plot:
        if options.out:
            raise RecordError("--out needs --plot: a table is printed")
        print(published_text(read_published(), options.words))
        return 0
    if options.words:
        raise RecordError(f"--plot draws all figures of its kind: leave out {' '.join(options.words)}")
    if options.out and options.out.suffix.lower() not in (".png", ".svg"):
        raise RecordError(f"--out {options.out}: a plot is a .png or a .svg")
    from results.plots.published import published_bars, published_heat_maps

    if options.plot == "bars":
        chart = published_bars(read_published())
    else:
        chart = published_heat_maps("resnet50", "ResNet-50", "images")
    path = options.out or Path(f"{chart.name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(chart.svg().encode() if path.suffix.lower() == ".svg" else chart.png())
    print(path)
    return 0


def _add_archive(command: argparse.ArgumentParser) -> None:
    _add_folders(command)
    command.add_argument("-o", "--out", type=Path, default=Path("results.tar.zst"), help="default: %(default)s")
    command.add_argument("--sign", type=Path, metavar="KEY", help="sign it with a private key of OpenSSH")


def _archive(options: argparse.Namespace) -> int:
    for folder in options.folders:
        if folder.exists() and not _has_results(folder):
            raise SweepError(no_results(folder))
    folders = [run_folder(folder) for folder in options.folders]
    runs = write_archive(folders, checkout() / "jube", options.out, options.sign)
    print(f"{options.out}: {count(runs, 'run')}{', signed' if options.sign else ''}")
    return 0


def _add_verify(command: argparse.ArgumentParser) -> None:
    command.add_argument("archive", type=Path, metavar="ARCHIVE", help="of 'caraml archive'")
    command.add_argument(
        "--signers",
        type=Path,
        metavar="FILE",
        help="refuse what none of these signed: lines of a name and a public key",
    )
    command.add_argument(
        "--most-gb",
        type=_gigabytes,
        default=MOST_GB,
        metavar="GB",
        help="unpack so much at most, a twentieth of it a file; default: %(default)g",
    )


def _verify(options: argparse.Namespace) -> int:
    checked = verify(options.archive, options.signers, options.most_gb)
    for problem in checked.problems:
        _say(problem)
    if checked.commits:
        print(
            f"caraml: it was made at commit {' and '.join(checked.commits)} of the suite: another version may compute "
            "a number in another way, so check it with that one before you judge",
            file=sys.stderr,
        )
    if checked.problems:
        return 1
    runs = count(checked.runs, "run")
    print(f"{options.archive}: {runs}, all files as they were, all numbers as their traces give them")
    if checked.signer:
        print(f"signed by {checked.signer}")
    elif checked.is_signed:
        print("who signed it was not looked at: --signers FILE names those who may")
    else:
        print("not signed: who made it is not known")
    return 0


def _records(folders: Sequence[Path]) -> Found:
    """Return all records below some folders, and print what was skipped; raises RecordError without a record."""
    found = find_records(run_folder(folder) for folder in folders)
    empty = [Skipped(no_results(folder), folder) for folder in folders if not _has_results(folder)]
    if not found.records and len(empty) == len(folders):
        raise SweepError("; ".join(empty))
    found.skipped.extend(empty)
    for run in filter(is_run, map(run_folder, folders)):
        if words := missing_runs(run):
            systems = dict.fromkeys(
                one["system"] for one in found.records if Path(one["file"]["path"]).is_relative_to(run)
            )
            found.skipped.append(Skipped(words, run, tuple(systems)))
    for sentence in alike(found.skipped):
        _say(f"skipped: {sentence}")
    if not found.records:
        raise RecordError(f"no result below {', '.join(map(str, folders))} can be used")
    return found


def _has_results(folder: Path) -> bool:
    return folder.is_file() or any(run_folder(folder).rglob(f"*{RESULT_NAME}"))


COMMANDS = {
    "doctor": Command("which system is this machine, and is all there for the first job on it?", _doctor, _add_doctor),
    "systems": Command(
        "the systems that are described: their tags, and what the tables know of them", _systems, _add_systems
    ),
    "image": Command(
        "build or pull a container image into the container folder, unless it is there", _image, _add_image
    ),
    "check": Command(
        "is all in order? Of a workflow's file, what JUBE would ignore; of a sweep, every point that failed",
        _check,
        _add_check,
    ),
    "wait": Command("wait until the last job of a sweep has ended; exits with 1 when any failed", _wait, _add_wait),
    "table": Command("print the results below some folders as a table", _table, _add_table),
    "report": Command(
        "write a page, HTML or PDF, that says what is fastest, and how sure that is; its plots as PNG, too",
        _report,
        _add_report,
    ),
    "accept": Command(
        "judge results by written requirements; exits with 1 where one is failed, with 3 where one cannot be told",
        _accept,
        _add_accept,
    ),
    "compare": Command(
        "speed-up and energy of one set of results over another, point by point", _compare, _add_compare
    ),
    "predict": Command(
        "what was not measured: another batch, more devices, another system; always with its error",
        _predict,
        _add_predict,
    ),
    "published": Command(
        "figures that others published, with their sources, as a table or a plot", _published, _add_published
    ),
    "track": Command("log runs into MLflow or Weights & Biases, each once", _track, _add_track),
    "archive": Command("store results, traces and workflow in one file that can be checked", _archive, _add_archive),
    "verify": Command(
        "check each file of an archive, and compute its numbers again from the traces", _verify, _add_verify
    ),
}
GROUPS = {
    "Before the first job": ("doctor", "systems", "image"),
    "While a sweep runs": ("check", "wait"),
    "With its results": ("table", "report", "accept", "compare", "predict", "published", "track", "archive", "verify"),
}
