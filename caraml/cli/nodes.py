"""Command that finds slow devices and nodes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from caraml.cli.loading import loaded
from caraml.cli.options import add_file, add_flag, add_folders, add_json, percent
from caraml.sweep import run_folder
from record.values import count
from results.find.records import RecordError
from results.load import good_checks
from results.show.tables.cells import rendered
from results.show.tables.machine.nodes import node_data, node_sentences, node_table
from results.show.tables.table import failures
from results.verdicts.nodes import NODE_CHECK, THRESHOLD_PERCENT, differences, judge, medians, outcomes
from results.verdicts.outcome import Outcome, exit_code


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command of this module."""
    parser = add(check_nodes)
    add_folders(
        parser, "results of jube/node_check.yaml, such as jube/node_check_run; the devices of all are one group"
    )
    add_file(parser, "--baseline", "compare also with a good node check: its result.json or its folder")
    text = "share of the group's median or the baseline, below which a figure is slow; default: %(default)g"
    parser.add_argument("--threshold", type=percent, default=THRESHOLD_PERCENT, metavar="PERCENT", help=text)
    parser.add_argument("--nodes", type=int, metavar="N", help="exit with 3 if fewer nodes were checked")
    add_json(parser)
    add_flag(parser, "--all", "every figure; default: with more than six, those that are slow or undecided")


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
