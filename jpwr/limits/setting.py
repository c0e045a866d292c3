"""One setting of one device, such as its power limit, and the arithmetic of a value that is asked for it."""

from __future__ import annotations

import math
import re
from typing import Callable, NamedTuple, Sequence

from jpwr.errors import JpwrError

POWER, CLOCK = "power limit", "clock"
UNITS = {POWER: "W", CLOCK: "MHz"}
OPTIONS = {POWER: "--power-limit", CLOCK: "--clock"}
# Power limits are set in milliwatts or microwatts, and drivers round them to less than this.
TOLERANCES = {POWER: 1.0, CLOCK: 0.5}


class Setting(NamedTuple):
    """One setting of one device by one interface, in watts or MHz; its functions raise JpwrError."""

    device_id: str
    channel: str  # name of its power sensor, such as "pynvml:0"
    kind: str  # POWER or CLOCK
    means: str  # the interface
    full: float  # what 100 % is: the default power limit, or the highest clock
    least: float
    most: float
    kept: Callable[[], float | None]  # the value that is set; None if the interface does not return it
    in_force: Callable[[], float]  # what limits the device now: for a clock without such a reading, the clock itself
    write: Callable[[float], None]
    undo: Callable[[float | None], None]  # takes what `kept` returned before
    steps: Sequence[float] = ()  # the values that can be set; empty: any from least to most
    why_not: str = ""  # why it must not be changed, such as a setting of others that could not be restored

    def __str__(self) -> str:
        return f"the {self.kind} of {self.channel}"

    def reached(self, value: float) -> bool:
        """Whether the device is limited to a value now."""
        distance = self.in_force() - value
        return distance <= TOLERANCES[self.kind] and (self.kind == CLOCK or distance >= -TOLERANCES[self.kind])


def checked(kind: str, text: str) -> str:
    """Return the text of a value without its unit; raise JpwrError unless it is an amount or a share from 1 on."""
    found = re.fullmatch(rf"(\d{{1,6}}(?:\.\d{{1,3}})?)(%| ?{UNITS[kind]})?", text)
    if not found or float(found[1]) < 1:
        raise JpwrError(f"{OPTIONS[kind]} must be a number of {UNITS[kind]}, or a share such as 70%, got '{text:.20}'")
    return found[1] + ("%" if found[2] == "%" else "")


def value_of(text: str, setting: Setting, is_slurms: bool = False) -> float:
    """Return the value that a checked text asks for, as a step of the device; raise JpwrError out of range.

    Between two steps it is the lower one, so that no limit is exceeded. Slurm takes the higher one for --gpu-freq.
    """
    value, unit = setting.full * float(text[:-1]) / 100 if text.endswith("%") else float(text), UNITS[setting.kind]
    value = math.floor(value) if setting.kind == CLOCK else value  # drivers take whole MHz
    if not setting.least <= value <= setting.most:
        allowed = f"{setting.channel}, which allows {setting.least:g} to {setting.most:g} {unit}: nothing was changed"
        raise JpwrError(f"{OPTIONS[setting.kind]} {text} is {value:g} {unit} for {allowed}")
    if is_slurms:
        return min((step for step in setting.steps if step >= value), default=value)
    return max((step for step in setting.steps if step <= value), default=value)
