"""The table of methods, and how names on the command line become open channels.

A method is one module here with one function, `open_channels(stack) -> list[Channel]`, which raises
BackendUnavailable when it cannot be used. Vendor libraries are imported inside it, never before. Another package adds
a method by an entry point of the group "jpwr.methods" that names such a function.
"""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from typing import Any, Callable, Dict, NamedTuple, Sequence

from jpwr.channel import Channel, Scope, check_info
from jpwr.errors import BackendUnavailable, JpwrError
from jpwr.process.threads import within
from jpwr.say import say

METHODS: Dict[str, str] = {  # noqa: UP006 - a type that Python 3.8 evaluates
    "pynvml": "jpwr.backends.nvml",
    "rocm": "jpwr.backends.rocm",
    "gc": "jpwr.backends.graphcore",
    "gh": "jpwr.backends.grace_hopper",
    "rapl": "jpwr.backends.rapl",
    "cray": "jpwr.backends.cray",
    "hwmon": "jpwr.backends.hwmon",
    "ipmi": "jpwr.backends.ipmi",
    "estimate": "jpwr.backends.estimate",
}
# A model of power is no sensor: it is used when it is asked for by name, and never found.
MODELLED = ("estimate",)
ENTRY_POINTS = "jpwr.methods"
# What several methods can show of the same part; `auto` takes it from the first that does.
SHARED_SCOPES = (Scope.DEVICE, Scope.MODULE, Scope.CPU, Scope.DRAM, Scope.NODE, Scope.SUPPLY)

OPEN_S = 60.0  # a driver that has to start many devices first takes a while

Open = Callable[[ExitStack], "list[Channel]"]


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
        notes += opened.notes + _add(opened.channels, channels, name)
    return OpenedMethods(channels, notes + _lacking(channels))


def _add(found: Sequence[Channel], channels: list[Channel], method: str) -> list[str]:
    """Add the channels whose names are free; a word on others, unless they are the same ones once more."""
    known = {channel.info.name: channel.info for channel in channels}
    channels += [channel for channel in found if channel.info.name not in known]
    others = [name for channel in found if known.get(name := channel.info.name, channel.info) != channel.info]
    if not others:
        return []
    return [f"{method}: left out, as another method has a channel of that name already: {', '.join(others)}"]


def _lacking(channels: Sequence[Channel]) -> list[str]:
    """One note on all channels that lack the same for the same reason."""
    names: dict[str, list[str]] = {}
    for channel in channels:
        if channel.info.lacks:
            names.setdefault(channel.info.lacks, []).append(channel.info.name)
    return [f"{', '.join(those)}: {lacks}" for lacks, those in names.items()]


def plug_ins() -> dict[str, Any]:
    """Entry points of other packages, by the method's name."""
    from importlib import metadata

    found: Any = metadata.entry_points()
    # Before Python 3.10 it is a dictionary of groups.
    points = found.select(group=ENTRY_POINTS) if hasattr(found, "select") else found.get(ENTRY_POINTS, ())
    return {point.name: point for point in points if point.name not in METHODS}


def _find(name: str) -> Open:
    if name in METHODS:
        found: Open = importlib.import_module(METHODS[name]).open_channels
        return found
    others = plug_ins()
    if name not in others:
        raise JpwrError(f"method '{name}' is unknown: choose from {', '.join([*METHODS, *others])}, or auto")
    try:
        found = others[name].load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever another package's import does
        raise BackendUnavailable(f"its package cannot be loaded ({type(error).__name__}: {error})") from error
    return found


def open_method(name: str, stack: ExitStack) -> list[Channel]:
    """Open the channels of one method; raises BackendUnavailable, or JpwrError for a name that is none."""
    open_channels = _find(name)
    found: list[list[Channel]] = []
    with ExitStack() as attempt:  # closes what was opened if the method turns out unusable half-way

        def open_them() -> None:
            try:
                found.append(_checked(open_channels(attempt)))
            except BackendUnavailable:
                raise
            except BaseException as error:  # whatever a vendor's library or another package does
                raise BackendUnavailable(f"it cannot be opened ({type(error).__name__}: {error})") from error

        waiting = f"waiting for the method '{name}' to open, for up to {OPEN_S:g} s"
        if not within(OPEN_S, open_them, lambda: say(waiting), starts_more=True):
            attempt.pop_all()
            raise BackendUnavailable(f"it did not answer within {OPEN_S:g} s")
        stack.push(attempt.pop_all())
    return found[0]


def _checked(channels: Any) -> list[Channel]:
    if not isinstance(channels, list) or not all(isinstance(channel, Channel) for channel in channels):
        raise BackendUnavailable(f"it gives {channels!r:.60}, which is no list of channels")
    if not channels:
        raise BackendUnavailable("it shows no channel")
    names = set()
    for channel in channels:
        try:
            check_info(channel.info)
        except ValueError as error:
            raise BackendUnavailable(f"it describes a channel that is none: {error}") from error
        if channel.info.name in names:
            raise BackendUnavailable(f"two of its channels are named '{channel.info.name}'")
        if channel.read_power_w is None and channel.read_energy_j is None:
            raise BackendUnavailable(f"its channel '{channel.info.name}' reads neither power nor a counter")
        if not isinstance(channel.counter_takes_s, (int, float)) or not channel.counter_takes_s >= 0:
            raise BackendUnavailable(f"its channel '{channel.info.name}' has a counter_takes_s that is no time")
        names.add(channel.info.name)
    return channels


def _open_first(alternatives: str, stack: ExitStack) -> OpenedMethods:
    names = alternatives.split("/")
    reasons: list[str] = []
    for name in names:
        try:
            channels = open_method(name, stack)
        except BackendUnavailable as error:
            reasons.append(f"method '{name}' was asked for, but {error}")
            continue
        return OpenedMethods(channels, [f"{reason}; using '{name}' instead" for reason in reasons])
    raise BackendUnavailable("; ".join(reasons))


def _open_auto(stack: ExitStack) -> OpenedMethods:
    channels: list[Channel] = []
    notes: list[str] = []
    for name in [*METHODS, *plug_ins()]:
        if name in MODELLED:
            continue
        try:
            found = open_method(name, stack)
        except BackendUnavailable as error:
            notes.append(f"{name}: not used: {error}")
            continue
        taken = {channel.info.scope for channel in channels if channel.info.scope in SHARED_SCOPES}
        before = len(channels)
        named_alike = _add([channel for channel in found if channel.info.scope not in taken], channels, name)
        if kept := channels[before:]:
            notes.append(f"{name}: {', '.join(map(_name, kept))}")
        notes += named_alike
        left = [channel for channel in found if channel.info.scope in taken]
        if left:
            notes.append(
                f"{name}: left out, as another method shows that scope already: {', '.join(map(_name, left))}; "
                "name both with --methods to have both"
            )
    if not channels:
        raise BackendUnavailable(
            f"no power sensor was found ({'; '.join(notes)}): "
            f"ask for '--methods {MODELLED[0]}' if an estimate from CPU load will do"
        )
    return OpenedMethods(channels, notes)


def _name(channel: Channel) -> str:
    return channel.info.name if channel.info.mine else f"{channel.info.name} (hidden from this job)"
