"""Options of the command line for limits."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from jpwr.limits.kept import names
from jpwr.limits.setting import CLOCK, OPTIONS, POWER, checked
from jpwr.messages import log
from jpwr.process.threads import within


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("limits of this job's devices, until the command's end")
    for kind, metavar, words in (
        (POWER, "W|P%", "power limit in watts, or as a share of the default limit, such as 70%%"),
        (CLOCK, "MHZ|P%", "highest clock in MHz, or as a share of the device's highest"),
    ):
        group.add_argument(OPTIONS[kind], metavar=metavar, help=words)
    words = "scheduler: jpwr only checks that the limits are in force (default: jpwr)"
    group.add_argument("--limits-set-by", choices=("jpwr", "scheduler"), default="jpwr", help=words)


def limited(options: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    """Put limits in force until the stack is closed; return them as a key of the trace; empty if none is asked for.

    What killed samplers left changed is restored first. Raises JpwrError if a limit cannot be put in force.
    """
    given = {POWER: options.power_limit, CLOCK: options.clock}
    asked = {kind: checked(kind, text) for kind, text in given.items() if text is not None}
    if not asked and not names():
        return {}
    from jpwr.limits.guardian import START_S, guarded
    from jpwr.limits.hold import compared, recover

    within(START_S, recover)
    if not asked:
        return {}
    found = compared(asked) if options.limits_set_by == "scheduler" else stack.enter_context(guarded(asked))
    for one in found:
        was = "" if one["before"] is None else f"; {one['before']:g} {one['unit']} before"
        log(f"{one['channel']}: {one['kind']} {one['set']:g} {one['unit']}, set by {one['by']}{was}")
    return {"limits": found}
