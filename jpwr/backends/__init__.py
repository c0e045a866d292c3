"""The table of methods, and how names on the command line become open channels.

A method is one module here with one function, `open_channels(stack) -> list[Channel]`, which raises
BackendUnavailable when it cannot be used. Vendor libraries are imported inside it, never before.
"""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from typing import NamedTuple, Sequence

from jpwr.channel import Channel
from jpwr.errors import BackendUnavailable, JpwrError

METHODS: dict[str, str] = {
    "pynvml": "jpwr.backends.nvml",
    "rapl": "jpwr.backends.rapl",
    "estimate": "jpwr.backends.estimate",
}
# A model of power is no sensor: it is used when it is asked for by name, and never found.
MODELLED = ("estimate",)


class OpenedMethods(NamedTuple):
    channels: list[Channel]
    notes: list[str]  # what was found, what was not and why


def open_methods(names: Sequence[str], stack: ExitStack) -> OpenedMethods:
    """Open the channels of all methods named.

    `auto` is every sensor that is there; `a/b` is the first of a and b that is there. Raises BackendUnavailable
    when a method that was named cannot be used, and JpwrError for a name that is not in the table.
    """
    channels: list[Channel] = []
    notes: list[str] = []
    for name in dict.fromkeys(names):
        opened = _open_auto(stack) if name == "auto" else _open_first(name, stack)
        channels += opened.channels
        notes += opened.notes
    return OpenedMethods(channels, notes)


def _open(name: str, stack: ExitStack) -> list[Channel]:
    if name not in METHODS:
        raise JpwrError(f"method '{name}' is unknown: choose from {', '.join(METHODS)}, or auto")
    with ExitStack() as attempt:  # closes what was opened if the method turns out unusable half-way
        channels: list[Channel] = importlib.import_module(METHODS[name]).open_channels(attempt)
        stack.push(attempt.pop_all())
    return channels


def _open_first(alternatives: str, stack: ExitStack) -> OpenedMethods:
    names = alternatives.split("/")
    reasons: list[str] = []
    for name in names:
        try:
            channels = _open(name, stack)
        except BackendUnavailable as error:
            reasons.append(f"method '{name}' was asked for, but {error}")
            continue
        return OpenedMethods(channels, [f"{reason}; using '{name}' instead" for reason in reasons])
    raise BackendUnavailable("; ".join(reasons))


def _open_auto(stack: ExitStack) -> OpenedMethods:
    channels: list[Channel] = []
    notes: list[str] = []
    for name in METHODS:
        if name in MODELLED:
            continue
        try:
            found = _open(name, stack)
        except BackendUnavailable as error:
            notes.append(f"{name}: not used: {error}")
        else:
            notes.append(f"{name}: {', '.join(channel.info.name for channel in found)}")
            channels += found
    if not channels:
        raise BackendUnavailable(
            f"no power sensor was found ({'; '.join(notes)}): "
            f"ask for '--methods {MODELLED[0]}' if an estimate from CPU load will do"
        )
    return OpenedMethods(channels, notes)
