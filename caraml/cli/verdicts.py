"""Verdicts on results: a report, by requirements, of one set over another, of nodes, and over time."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from caraml.cli.options import (
    JSON,
    REQUIREMENTS,
    above_0,
    add_file,
    add_filter,
    add_flag,
    add_folders,
    add_meter,
    add_node_check,
    add_offers,
    add_out,
    percent,
    say,
)
from caraml.cli.tables import loaded
from caraml.errors import CaramlError
from caraml.sweep import no_results, run_folder
from record.values import count, epoch_s
from results.exchange.archive import unpacked
from results.find.records import RecordError
from results.history import changes_of, series_of
from results.load import Loaded, below, good_checks
from results.points.repeats import by_point
from results.show.tables.accept import decision_text, verdicts_json
from results.show.tables.cells import rendered
from results.show.tables.comparison import comparison_data, comparison_text
from results.show.tables.nodes import node_data, node_sentences, node_table
from results.show.tables.table import failures
from results.verdicts import compare as comparing
from results.verdicts.nodes import NODE_CHECK, THRESHOLD_PERCENT, differences, judge, medians, outcomes
from results.verdicts.outcome import Outcome, exit_code
from results.verdicts.requirements import Requirements, read_requirements
from results.verdicts.tender.decision import Decision
from results.verdicts.tender.offers import names_of_offers
from results.verdicts.tender.pledge import Pledge, read_pledge


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of this module."""
    parser = add(report)
    add_folders(parser)
    add_out(parser, "an .html; default: %(default)s", "report.html")
    add_meter(parser)
    add_node_check(parser)
    add_file(parser, "--prices", "add costs, from prices in the form of examples/prices.yaml")
    add_file(parser, "--requirements", REQUIREMENTS)
    add_offers(parser)

    parser = add(accept)
    add_folders(parser)
    add_file(parser, "--requirements", REQUIREMENTS, required=True)
    add_offers(parser)
    add_filter(parser)
    add_meter(parser)
    add_flag(parser, "--json", JSON)

    parser = add(compare)
    add_folders(parser, "two or more folders of results")
    text = "the folder that counts as 1; default: the first"
    parser.add_argument("--baseline", type=Path, metavar="FOLDER", help=text)
    add_filter(parser)
    add_meter(parser)
    add_flag(parser, "--json", JSON)

    parser = add(check_nodes)
    add_folders(
        parser, "results of jube/node_check.yaml, such as jube/node_check_run; the devices of all are one group"
    )
    add_file(parser, "--baseline", "compare also with a good node check: its result.json or its folder")
    text = "share of the group's median or the baseline, below which a figure is slow; default: %(default)g"
    parser.add_argument("--threshold", type=percent, default=THRESHOLD_PERCENT, metavar="PERCENT", help=text)
    parser.add_argument("--nodes", type=int, metavar="N", help="exit with 3 if fewer nodes were checked")
    add_flag(parser, "--json", JSON)
    add_flag(parser, "--all", "every figure; default: with more than six, those that are slow or undecided")

    parser = add(history)
    add_folders(parser, "results of all times, as folders or archives")
    parser.add_argument("--last", type=int, default=5, metavar="N", help="runs on each side; default: %(default)s")
    parser.add_argument("--baseline", default="", metavar="DATE", help="the first runs are those from this day on")
    text = "what counts as worse; default: %(default)g"
    parser.add_argument("--threshold", type=above_0, default=2.0, metavar="PERCENT", help=text)
    add_filter(parser)
    add_out(parser, "draw all runs over time into this PNG")


def report(options: argparse.Namespace) -> int:
    """Write a page that ranks the systems with their uncertainty, and its plots as PNG next to it."""
    from results.files.typed_files import read_file
    from results.show.page.report import check_page, write_report
    from results.verdicts.cost import Costs

    check_page(options.out)
    costs = read_file(Costs, options.prices, "prices") if options.prices else None
    requirements, pledge, found = _offered(options, checks=options.node_check, costs=costs)
    for system, tag in found.tags.items():
        if costs and tag in costs.systems:
            costs = replace(costs, systems={**costs.systems, system: costs.systems.get(system, costs.systems[tag])})
    page, *_ = write_report(found.records, found.skipped, options.out, costs, requirements, pledge)
    print(page)
    return 0


def accept(options: argparse.Namespace) -> int:
    """Judge results by requirements and a pledge; exits with 1 if one is not met, with 3 if one cannot be decided."""
    requirements, pledge, found = _offered(options, conditions=options.filter)
    assert requirements
    records, skipped = found.records, found.skipped
    if options.filter:  # skipped folders of other systems do not matter
        systems = {record.system for record in records}
        skipped = [file for file in skipped if any(map(file.may_be_of, systems))]
    decision = Decision(by_point(records), requirements, skipped=skipped, pledge=pledge)
    if not decision.outcomes:
        raise RecordError("the requirements have no list 'must': add one")
    code = exit_code(decision.outcomes)
    print(verdicts_json(decision, code, skipped) if options.json else decision_text(decision))
    return code


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
            raise CaramlError(f"{folder} has no result that counts" if is_there else no_results(folder))
    compared = {other: comparing.compare(ours, below(run_folder(other), found.records)) for other in others}
    if options.json:
        print(json.dumps([comparison_data(one, str(base), str(other)) for other, one in compared.items()], indent=1))
    else:
        print("\n\n".join(comparison_text(one, str(base), str(other)) for other, one in compared.items()))
    without_lines = [other for other, comparison in compared.items() if not comparison.lines]
    for other in without_lines:
        say(f"{other} has no point in common with {base}: nothing was compared")
    return int(bool(without_lines))


def _offered(options: argparse.Namespace, **settings: Any) -> tuple[Requirements | None, Pledge | None, Loaded]:
    """Read requirements, pledge and results, and print the names of systems that are in several offers.

    Raises RecordError for an option that would be ignored.
    """
    if options.signers and not options.pledge:
        raise RecordError("--signers are those of a pledge: give --pledge FILE")
    if options.pledge and not options.requirements:
        raise RecordError("--pledge needs --requirements FILE, which names the workloads")
    requirements, pledge = read_requirements(options.requirements) if options.requirements else None, None
    if requirements and options.pledge:
        pledge = read_pledge(options.pledge, requirements.workloads, options.signers)
    offers = names_of_offers(options.offer, options.folders)
    found = loaded(options.folders, meters=options.meter, offers=offers, **settings)
    for tag in dict.fromkeys(found.tags.values()):
        names = " and ".join(f"'{name}'" for name in found.tags if found.tags[name] == tag)
        say(f"{tag} is in several offers, listed as {names}: --offer NAME=FOLDER joins or renames them")
    return requirements, pledge, found


def check_nodes(options: argparse.Namespace) -> int:
    """Find slow devices and nodes; exits with 1 if one is slow, with 3 if that cannot be decided."""
    found = loaded(options.folders)
    records = [record for record in found.records if record.benchmark == NODE_CHECK]
    if not records:
        raise RecordError(f"{options.folders[0]} has no node check: run jube/node_check.yaml")
    baseline = good_checks([run_folder(options.baseline)]) if options.baseline else []
    verdicts, unlike = judge(records, baseline, options.threshold), differences(records)
    kinds, known = dict.fromkeys(one.kind for one in verdicts), medians(baseline)
    missing = [kind for kind in kinds if kind not in known] if baseline else []
    if missing and len(missing) == len(kinds):
        raise RecordError(
            f"{options.baseline} has no figure of {missing[0].system} to compare with: "
            "give a check of the same system, with matrices of the same size"
        )
    failed = failures(records)
    hosts = {device.hostname for record in records if record.is_good for device in record.devices}
    if options.nodes and len(hosts) < options.nodes:
        failed.append(f"{options.nodes} nodes were to be checked, but the results are of {count(len(hosts), 'node')}")
    is_incomplete = failed or any(one.systems is not None for one in found.skipped)
    code = exit_code([*outcomes(verdicts), *([Outcome.UNDECIDED] if is_incomplete else [])])
    if options.json:
        data = {"exit_code": code, "threshold_percent": options.threshold, "failed": failed}
        data["not_in_baseline"] = [kind.name for kind in missing]
        print(json.dumps({**data, "figures": node_data(verdicts, unlike)}, indent=1))
        return code
    if verdicts:
        print(rendered(node_table(verdicts).needed(options.all), "text"))
    for sentence in [*node_sentences(verdicts, unlike, missing), *failed]:
        print(sentence)
    return code


def history(options: argparse.Namespace) -> int:
    """Compare the last runs of each point with its first; exits with 1 if one got worse, with 3 if undecided."""
    since_s = epoch_s(options.baseline) if options.baseline else -math.inf
    if since_s is None:
        raise RecordError(f"--baseline {options.baseline} is no day: write one as 2026-03-09")
    if options.last < 2:
        raise RecordError(f"--last {options.last} was asked for: an interval needs at least 2 runs on each side")
    with ExitStack() as stack:
        places = [stack.enter_context(unpacked(path)) if path.is_file() else path for path in options.folders]
        records = loaded(places, conditions=options.filter).records
    changes = changes_of(records, options.last, since_s, options.threshold / 100)
    if not changes:
        raise RecordError(f"no good run with a time among {len(records)} was found: there is nothing to compare")
    order = [Outcome.FAILED, Outcome.UNDECIDED, Outcome.PASSED]
    for change in sorted(changes, key=lambda change: order.index(change.outcome)):
        print(change.text)
    if options.out:
        from results.show.plots.workload import over_days

        options.out.write_bytes(over_days(series_of(records)).png())
        print(options.out)
    return exit_code(change.outcome for change in changes)
