"""Options of the command line for limits."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from jpwr.limits.kept import names
from jpwr.limits.setting import CLOCK, OPTIONS, POWER, checked
from jpwr.messages import log


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("limits of this job's devices, until the command's end")
    group.add_argument(
        OPTIONS[POWER], metavar="W|P%", help="power limit in watts, or as a share of the default limit, such as 70%%"
    )
    group.add_argument(
        OPTIONS[CLOCK], metavar="MHZ|P%", help="highest clock in MHz, or as a share of the device's highest"
    )
    group.add_argument(
        "--limits-set-by",
        choices=("jpwr", "scheduler"),
        default="jpwr",
        help="scheduler: jpwr only checks that the limits are in force (default: jpwr)",
    )


def limited(options: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    """Put limits in force until the stack is closed; return them as a key of the trace; empty if none is asked for.

    What killed samplers left changed is restored first. Raises JpwrError if a limit cannot be put in force.
    """
    given = {POWER: options.power_limit, CLOCK: options.clock}
    asked = {kind: checked(kind, text) for kind, text in given.items() if text is not None}
    if not asked and not names():
        return {}
    from jpwr.limits import guardian

    guardian.recover_left_behind()
    if not asked:
        return {}
    if options.limits_set_by == "scheduler":
        found = guardian.described_by_scheduler(asked)
    else:
        found = stack.enter_context(guardian.Guardian(asked)).described
    for one in found:
        was = "" if one["before"] is None else f"; {one['before']:g} {one['unit']} before"
        log(f"{one['channel']}: {one['kind']} {one['set']:g} {one['unit']}, set by {one['by']}{was}")
    return {"limits": found}
