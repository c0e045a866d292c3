"""Power of the whole node from its baseboard management controller, through ipmitool."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import ExitStack

from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError

COMMAND = ("ipmitool", "dcmi", "power", "reading")
READING = re.compile(r"Instantaneous power reading:\s*(\d+)\s*Watts")
OFF = re.compile(r"Power reading state is:\s*deactivated", re.IGNORECASE)
# A reading takes a large part of a second, and most controllers refresh no faster (Green Metrics Tool,
# docs.green-coding.io, "PSU Energy AC - IPMI machine"). The controller states no accuracy.
PERIOD_S = 1.0
# Readings are in whole watts. Controllers do not state over which time they average: up to 30 s is known, and assumed
# unless this variable states it, in seconds.
AVERAGING_VARIABLE, AVERAGED_S, STEP_W = "JPWR_IPMI_AVERAGING_S", 30.0, 1.0
TIMEOUT_S = 5.0


def open_channels(stack: ExitStack) -> list[Channel]:
    """Open the channel of the node; raise BackendUnavailable if ipmitool is missing or returns no power."""
    if shutil.which(COMMAND[0]) is None:
        raise BackendUnavailable("the program ipmitool was not found: install the package ipmitool")
    try:
        read_power_w()
    except ReadError as error:
        raise BackendUnavailable(
            f"the management controller returns no power ({error}): ipmitool needs /dev/ipmi0, and usually root"
        ) from error
    info = ChannelInfo(
        "ipmi:node",
        Scope.NODE,
        "management controller by ipmitool dcmi",
        period_s=PERIOD_S,
        held_s=PERIOD_S,
        averaging_s=_averaging_s(),
        resolution_w=STEP_W,
    )
    return [Channel(info, read_power_w)]


def _averaging_s() -> float:
    text = os.environ.get(AVERAGING_VARIABLE, "") or str(AVERAGED_S)
    if not re.fullmatch(r"\d{1,4}(\.\d+)?", text):
        raise BackendUnavailable(f"{AVERAGING_VARIABLE} is '{text:.40}', but must be a number of seconds, such as 10")
    return float(text)


def read_power_w() -> float:
    """Read the node's power in watts; raise ReadError if that fails."""
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReadError(f"{' '.join(COMMAND)}: {error}") from error
    found = READING.search(done.stdout)
    if done.returncode or found is None:
        output = (done.stderr or done.stdout).strip().splitlines()
        raise ReadError(f"{' '.join(COMMAND)}: {output[-1] if output else f'exit code {done.returncode}'}")
    if OFF.search(done.stdout):
        raise ReadError(f"{' '.join(COMMAND)}: the power reading is deactivated")
    return float(found[1])
