"""Options of the command line for limits."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any, Sequence

from jpwr.channel import ChannelInfo
from jpwr.limits.kept import held_by_others, names
from jpwr.limits.setting import CLOCK, OPTIONS, POWER, UNITS, checked
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

    What earlier samplers left changed is restored first. Raises JpwrError if a limit cannot be put in force.
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
    return _told(found)


def limits_of_others(infos: Sequence[ChannelInfo]) -> dict[str, Any]:
    """Return the limits that other samplers keep in force on this job's devices, as a key of the trace."""
    found = []
    for entry in held_by_others() if names() else ():
        about = {key: entry.get(key) for key in ("device_id", "kind", "set", "before")}
        by = f"another jpwr, user {entry['user']}, until it ends"
        of_kind = {"unit": UNITS[entry["kind"]], "requested": "", "found": None, "by": by}
        devices = [info for info in infos if info.mine and entry.get("device_id") in info.device_id.split()]
        found += [{"channel": info.name, **about, **of_kind} for info in devices]
    return _told(found) if found else {}


def _told(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Log limits; return them as a key of the trace."""
    for one in found:
        was = "" if one["before"] is None else f"; {one['before']:g} {one['unit']} before"
        log(f"{one['channel']}: {one['kind']} {one['set']:g} {one['unit']}, set by {one['by']}{was}")
    return {"limits": found}
