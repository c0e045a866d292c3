"""The command on changes of a machine over time."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from contextlib import ExitStack

from caraml.cli.loading import loaded
from caraml.cli.options import above_0, add_filter, add_folders, add_out
from record.values import epoch_s
from results.exchange.archive import unpacked
from results.find.records import RecordError
from results.history import changes_of, series_of
from results.verdicts.outcome import Outcome, exit_code


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command of this module."""
    parser = add(history)
    add_folders(parser, "results of all times, as folders or archives")
    parser.add_argument("--last", type=int, default=5, metavar="N", help="runs on each side; default: %(default)s")
    parser.add_argument("--baseline", default="", metavar="DATE", help="the first runs are those from this day on")
    text = "what counts as worse; default: %(default)g"
    parser.add_argument("--threshold", type=above_0, default=2.0, metavar="PERCENT", help=text)
    add_filter(parser)
    add_out(parser, "draw all runs over time into this PNG")


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
        from results.show.plots.history import over_time

        options.out.write_bytes(over_time(series_of(records)).png())
        print(options.out)
    return exit_code(change.outcome for change in changes)
