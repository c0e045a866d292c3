"""Command that finds slow devices and nodes."""

from __future__ import annotations

import argparse

from caraml.cli.after import JSON, good_checks, records_in
from caraml.cli.command import Group, above_0, argument, file, folders, say
from results.record.records import RecordError
from results.show.tables import nodes as shown
from results.show.tables.table import aligned, failures
from results.verdicts.nodes import NODE_CHECK, THRESHOLD_PERCENT, differences, judge, medians, outcomes
from results.verdicts.outcome import Outcome, exit_code

COMMANDS = Group()


@COMMANDS.command(
    folders(help="of jube/node_check.yaml, such as jube/node_check_run; the devices of all are one group"),
    file("--baseline", "compare also with a good node check: its result.json or its folder"),
    argument(
        "--threshold",
        type=above_0,
        default=THRESHOLD_PERCENT,
        metavar="PERCENT",
        help="of the group's median or the baseline, below which a figure is slow; default: %(default)g",
    ),
    JSON,
)
def check_nodes(options: argparse.Namespace) -> int:
    """Find slow devices and nodes; exits with 1 if one is slow, with 3 if that cannot be decided."""
    found = records_in(options.folders)
    records = [record for record in found.records if record["benchmark"] == NODE_CHECK]
    if not records:
        raise RecordError(f"{options.folders[0]} has no node check: run jube/node_check.yaml")
    baseline = good_checks([options.baseline]) if options.baseline else []
    verdicts, unlike = judge(records, baseline, options.threshold), differences(records)
    failed = failures(records)
    is_incomplete = failed or any(one.systems is not None for one in found.skipped)
    code = exit_code([*outcomes(verdicts), *([Outcome.UNDECIDED] if is_incomplete else [])])
    if options.json:
        print(shown.nodes_json(verdicts, unlike, options.threshold, code, failed, found.skipped))
        return code
    if verdicts:
        print(aligned(shown.node_rows(verdicts)))
    for sentence in [*shown.peak_sentences(medians(records)), *shown.node_sentences(verdicts, unlike), *failed]:
        print(sentence)
    if code == 3 and not any(one.outcome for one in verdicts):
        say("nothing was compared: check more devices, or give --baseline FILE")
    return code
