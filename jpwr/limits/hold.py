"""Options for limits; put them in force for a command, read back, with what restores them at its end."""

from __future__ import annotations

import argparse
import os
import time
from contextlib import ExitStack
from typing import Any

from jpwr.errors import BackendUnavailable, JpwrError
from jpwr.limits.kept import FOLDER_VARIABLE, Kept, path_of_file
from jpwr.limits.setting import CLOCK, OPTIONS, POWER, UNITS, Setting, checked, value_of
from jpwr.messages import log
from jpwr.process.threads import within

RESTORE_S = 60.0  # a driver may have to initialise many devices first
IN_FORCE_S = 10.0  # longest wait until a device is limited as set; drivers take well below a second
LOOK_S = 0.02  # between two looks at it


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("limits of this job's devices, until the command's end")
    words = "power limit in watts, or as a share of the default limit, such as 70%%"
    group.add_argument(OPTIONS[POWER], metavar="W|P%", help=words)
    words = "highest clock in MHz, or as a share of the device's highest"
    group.add_argument(OPTIONS[CLOCK], metavar="MHZ|P%", help=words)
    words = "scheduler: jpwr only checks that the limits are in force (default: jpwr)"
    group.add_argument("--limits-set-by", choices=("jpwr", "scheduler"), default="jpwr", help=words)


def limited(options: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    """Put limits in force until the stack is closed; return them as a key of the trace; empty if none is asked for.

    What a killed sampler left changed is restored first. Raises JpwrError if a limit cannot be put in force.
    """
    given = {POWER: options.power_limit, CLOCK: options.clock}
    asked = {kind: checked(kind, text) for kind, text in given.items() if text is not None}
    is_slurms, file = options.limits_set_by == "scheduler", None
    if path_of_file().exists() or (asked and not is_slurms):
        try:
            file = Kept()
        except OSError as error:
            if asked:
                words = "another jpwr has changed limits of this node: wait for its end"
                words = words if isinstance(error, BlockingIOError) else f"{error.strerror}: set {FOLDER_VARIABLE}"
                raise JpwrError(f"{path_of_file()} cannot be written ({words})") from error
        else:
            _restore(file)
    if not asked:
        if file:
            file.close()
        return {}
    if file:
        stack.callback(file.close)
        stack.callback(_restore, file)
    found = []
    with ExitStack() as opened:
        settings = open_settings(opened)
        for kind, text in asked.items():
            # Of two interfaces to a clock, the first is root's alone, and the last may be open to all.
            of_kind = [one for one in settings if one.kind == kind]
            chosen: dict[str, Setting] = {}
            for one in of_kind:
                chosen[one.device_id] = chosen.get(one.device_id, one) if os.geteuid() == 0 else one
            if without := {one.channel for one in settings} - {one.channel for one in of_kind}:
                raise JpwrError(f"{', '.join(sorted(without))} has no {kind} to set: nothing was changed")
            found += [(text, value_of(text, one, is_slurms), one) for one in chosen.values()]
        if not found:
            raise JpwrError(f"this job has no {' and no '.join(asked)} to set: nothing was changed")
        described = [_put(text, value, setting, None if is_slurms else file) for text, value, setting in found]
    for limit in described:
        was = "" if limit["before"] is None else f"; {limit['before']:g} {limit['unit']} before"
        log(f"{limit['channel']}: {limit['kind']} {limit['set']:g} {limit['unit']}, set by {limit['by']}{was}")
    return {"limits": described}


def open_settings(stack: ExitStack) -> list[Setting]:
    """Return the settings of the job's devices, of the first vendor that has any; raise BackendUnavailable for none."""
    from jpwr.limits import amd, nvml  # needed for limits alone

    reasons = []
    for vendor in (nvml.open_settings, amd.open_settings):
        try:
            return vendor(stack)
        except BackendUnavailable as error:
            reasons.append(str(error))
    raise BackendUnavailable(f"no device has limits that can be set ({'; '.join(reasons)}): leave the options out")


def _restore(file: Kept) -> None:
    # The settings are opened anew, as the end of the sensors may close the vendor's library.
    if not within(RESTORE_S, lambda: file.restore(open_settings)):
        log(f"limits are not restored within {RESTORE_S:g} s: the next start of jpwr restores them")


def _put(text: str, value: float, setting: Setting, file: Kept | None) -> dict[str, Any]:
    """Set a limit, or without a file leave that to the scheduler; wait until it is in force, and describe it."""
    kind, unit, before, by = setting.kind, UNITS[setting.kind], None, "scheduler"
    try:
        if file and setting.why_not:
            raise JpwrError(setting.why_not)
        if file:
            before, by = setting.kept(), f"jpwr, user {os.getuid()}, {setting.means}"
            file.add(setting, before, value)
            try:
                setting.write(value)
            except JpwrError:
                file.forget(setting)
                raise
        end_s = time.monotonic() + IN_FORCE_S
        while not (is_reached := setting.reached(value)) and time.monotonic() <= end_s:
            time.sleep(LOOK_S)
        found = setting.in_force()
    except JpwrError as error:
        advice = f"run jpwr as root, let the scheduler set it, or leave {OPTIONS[kind]} out"
        raise JpwrError(f"{setting} is not limited: {error}; {advice}") from error
    if not is_reached:
        raise JpwrError(
            f"{setting} must be {value:g} {unit}, but after {IN_FORCE_S:g} s {found:g} {unit} is in force: the driver "
            "rounds it, or another limit of the device, machine or scheduler decides"
        )
    about = {"channel": setting.channel, "device_id": setting.device_id, "kind": kind, "unit": unit}
    return {**about, "requested": text, "set": value, "found": found, "before": before, "by": by}
