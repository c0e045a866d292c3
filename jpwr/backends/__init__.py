"""Table of methods, and functions that open the channels of those named on the command line.

A method is a module of this package with one function, `open_channels(stack) -> list[Channel]`, which raises
BackendUnavailable if it cannot be used. It imports vendor libraries itself. Another package adds a method by an entry
point of the group "jpwr.methods" that names such a function.
"""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from typing import Any, Callable, Dict, NamedTuple, Sequence

from jpwr.channel import Channel, Scope, check_info, check_number
from jpwr.errors import BackendUnavailable, JpwrError
from jpwr.messages import log, near
from jpwr.process.threads import within

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
# A model of power is no sensor: it is used only by its name, never by `auto`.
MODELLED = ("estimate",)
ENTRY_POINTS = "jpwr.methods"
# Scopes that several methods can cover; `auto` takes each from the first method that does.
SHARED_SCOPES = (Scope.DEVICE, Scope.MODULE, Scope.CPU, Scope.DRAM, Scope.NODE, Scope.SUPPLY)

OPEN_S = 60.0  # a driver may have to initialise many devices first

Open = Callable[[ExitStack], "list[Channel]"]


class OpenedMethods(NamedTuple):
    """Channels of the methods that were opened."""

    channels: list[Channel]
    notes: list[str]  # on methods and channels that were found, left out or unavailable


def open_methods(names: Sequence[str], stack: ExitStack) -> OpenedMethods:
    """Open the channels of all methods named.

    `auto` is every available sensor; `a/b` is the first available of a and b. Raises BackendUnavailable if a named
    method cannot be used, and JpwrError for an unknown name.
    """
    channels: list[Channel] = []
    notes: list[str] = []
    for name in dict.fromkeys(names):
        opened = _open_auto(stack) if name == "auto" else _open_first(name, stack)
        notes += opened.notes + _add(opened.channels, channels, name)
    return OpenedMethods(channels, notes + _lacking(channels))


def _add(found: Sequence[Channel], channels: list[Channel], method: str) -> list[str]:
    """Add the channels whose names are free; return a note on others, except for identical ones."""
    known = {channel.info.name: channel.info for channel in channels}
    channels += [channel for channel in found if channel.info.name not in known]
    others = [name for channel in found if known.get(name := channel.info.name, channel.info) != channel.info]
    if not others:
        return []
    return [f"{method}: left out, because another method has a channel of that name: {', '.join(others)}"]


def _lacking(channels: Sequence[Channel]) -> list[str]:
    """Return one note for all channels that lack the same reading for the same reason."""
    names: dict[str, list[str]] = {}
    for channel in channels:
        if channel.info.lacks:
            names.setdefault(channel.info.lacks, []).append(channel.info.name)
    return [f"{', '.join(those)}: {lacks}" for lacks, those in names.items()]


def plug_ins() -> dict[str, Any]:
    """Return the entry points of other packages' methods, by name."""
    from importlib import metadata

    found: Any = metadata.entry_points()
    # A dictionary of groups before Python 3.10.
    points = found.select(group=ENTRY_POINTS) if hasattr(found, "select") else found.get(ENTRY_POINTS, ())
    return {point.name: point for point in points if point.name not in METHODS}


def _find(name: str) -> Open:
    if name in METHODS:
        found: Open = importlib.import_module(METHODS[name]).open_channels
        return found
    others = plug_ins()
    if name not in others:
        raise JpwrError(f"method '{name}' is unknown: {near(name, [*METHODS, *others, 'auto'])}")
    try:
        found = others[name].load()
    except (Exception, SystemExit) as error:  # another package's import may raise anything
        raise BackendUnavailable(f"its package cannot be loaded ({type(error).__name__}: {error})") from error
    return found


def open_method(name: str, stack: ExitStack) -> list[Channel]:
    """Open the channels of one method; raise BackendUnavailable if it fails, and JpwrError for an unknown name."""
    open_channels = _find(name)
    found: list[list[Channel]] = []
    with ExitStack() as attempt:  # closes what a failed attempt has opened

        def open_them() -> None:
            try:
                found.append(_checked(open_channels(attempt)))
            except BackendUnavailable:
                raise
            except BaseException as error:  # a vendor's library or another package may raise anything
                raise BackendUnavailable(f"it cannot be opened ({type(error).__name__}: {error})") from error

        waiting = f"waiting for the method '{name}' to open, for up to {OPEN_S:g} s"
        if not within(OPEN_S, open_them, lambda: log(waiting), starts_more=True):
            attempt.pop_all()
            raise BackendUnavailable(f"it did not answer within {OPEN_S:g} s")
        stack.push(attempt.pop_all())
    return found[0]


def _checked(channels: Any) -> list[Channel]:
    """Return channels that a method has opened; raise BackendUnavailable unless a trace can hold them."""
    if not isinstance(channels, list) or not channels or not all(isinstance(one, Channel) for one in channels):
        raise BackendUnavailable(f"it returned {channels!r:.60} instead of a list of channels")
    try:
        for channel in channels:
            check_info(channel.info)
            check_number(channel.counter_takes_s, f"the counter_takes_s of '{channel.info.name}'")
            if channel.read_power_w is None and channel.read_energy_j is None:
                raise ValueError(f"'{channel.info.name}' reads neither power nor a counter")
    except ValueError as error:
        raise BackendUnavailable(f"it returned an invalid channel: {error}") from error
    if len({channel.info.name for channel in channels}) < len(channels):
        raise BackendUnavailable("several of its channels have one name")
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
        duplicates = _add([channel for channel in found if channel.info.scope not in taken], channels, name)
        if kept := channels[before:]:
            notes.append(f"{name}: {', '.join(map(_name, kept))}")
        notes += duplicates
        left = [channel for channel in found if channel.info.scope in taken]
        if left:
            notes.append(
                f"{name}: left out, because another method covers that scope: {', '.join(map(_name, left))}; "
                "to use both, name both with --methods"
            )
    if not channels:
        raise BackendUnavailable(
            f"no power sensor was found ({'; '.join(notes)}): "
            f"use '--methods {MODELLED[0]}' for an estimate from CPU load"
        )
    return OpenedMethods(channels, notes)


def _name(channel: Channel) -> str:
    return channel.info.name if channel.info.mine else f"{channel.info.name} (hidden from this job)"
