"""Verdicts on results: by requirements, and of one set over another."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from caraml.cli.loading import loaded
from caraml.cli.options import (
    REQUIREMENTS,
    add_file,
    add_filter,
    add_folders,
    add_json,
    add_meter,
    add_offers,
    say,
)
from caraml.errors import SweepError
from caraml.sweep import no_results, run_folder
from results.find.records import RecordError
from results.load import below
from results.points.repeats import by_point
from results.show.tables.accept import tender_text, verdicts_json
from results.show.tables.comparison import comparison_data, comparison_text
from results.verdicts import compare as comparing
from results.verdicts.outcome import exit_code
from results.verdicts.requirements import Requirements, read_requirements
from results.verdicts.tender.award import judge_tender
from results.verdicts.tender.offers import names_of_offers
from results.verdicts.tender.pledge import Pledge, read_pledge


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of this module."""
    parser = add(accept)
    add_folders(parser)
    add_file(parser, "--requirements", REQUIREMENTS, required=True)
    add_offers(parser)
    add_filter(parser)
    add_meter(parser)
    add_json(parser)

    parser = add(compare)
    add_folders(parser, "two or more folders of results")
    text = "the folder that counts as 1; default: the first"
    parser.add_argument("--baseline", type=Path, metavar="FOLDER", help=text)
    add_filter(parser)
    add_meter(parser)
    add_json(parser)


def accept(options: argparse.Namespace) -> int:
    """Judge results by requirements and a pledge; exits with 1 if one is not met, with 3 if one cannot be decided."""
    requirements = read_requirements(options.requirements)
    pledge = read_the_pledge(options, requirements)
    offers = names_of_offers(options.offer, options.folders)
    found = loaded(options.folders, conditions=options.filter, meters=options.meter, offers=offers)
    say_offers(found.tags)
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


def read_the_pledge(options: argparse.Namespace, requirements: Requirements | None) -> Pledge | None:
    """Read the pledge, None without one; raises RecordError for an option that would be ignored."""
    if options.signers and not options.pledge:
        raise RecordError("--signers are those of a pledge: give --pledge FILE")
    if options.pledge and requirements is None:
        raise RecordError("--pledge needs --requirements FILE, which names the workloads")
    if requirements is None or not options.pledge:
        return None
    return read_pledge(options.pledge, requirements.workloads, options.signers)


def say_offers(tags: Mapping[str, str]) -> None:
    """Print the names of systems that are in several offers."""
    for tag in dict.fromkeys(tags.values()):
        names = " and ".join(f"'{name}'" for name in tags if tags[name] == tag)
        say(f"{tag} is in several offers, listed as {names}: --offer NAME=FOLDER joins or renames them")
