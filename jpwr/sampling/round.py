"""Calls of a sampling round, one after the other, and the value that each returned."""

from __future__ import annotations

import enum
from typing import Any, Callable, NamedTuple, Sequence

from jpwr.channel import Channel
from jpwr.errors import ReadError


class Kind(enum.Enum):
    """Kind of a reading."""

    POWER = "power"
    COUNTER = "counter"
    SLOPE = "counter and slope"  # a counter whose slope is the channel's power


class Part(enum.Enum):
    """Subset of a round's calls to make."""

    ALL = "all"
    COUNTERS = "counters"
    QUICK_COUNTERS = "quick counters"  # which keep nobody waiting


class Step(NamedTuple):
    """One call of a round."""

    channel: int  # its place among all
    kind: Kind
    read: Callable[[], Any]


class Reading(NamedTuple):
    """Value that one call returned, and the times in seconds at which the call began and ended."""

    channel: int  # its place among all
    kind: Kind
    value: Any  # a ReadError where it failed
    begin_s: float
    end_s: float


class Silence(ReadError):
    """Placeholder for each reading of a channel that hangs, which has already been reported."""


def steps_of(channels: Sequence[Channel], indices: Sequence[int]) -> dict[Part, list[Step]]:
    """Return the calls of each part of a round over the channels with these indices."""
    steps: dict[Part, list[Step]] = {part: [] for part in Part}
    for index in indices:
        channel = channels[index]
        if channel.read_energy_j is not None:
            counter = Step(index, Kind.COUNTER, channel.read_energy_j)
            steps[Part.ALL].append(counter if channel.read_power_w else counter._replace(kind=Kind.SLOPE))
            steps[Part.COUNTERS].append(counter)
            if not channel.counter_takes_s:
                steps[Part.QUICK_COUNTERS].append(counter)
        if channel.read_power_w is not None:
            steps[Part.ALL].append(Step(index, Kind.POWER, channel.read_power_w))
    return steps


def reason(error: BaseException) -> ReadError:
    """Return why a reading failed, without all that an exception holds on to."""
    try:
        words = str(error)
        kind = [] if isinstance(error, ReadError) else [type(error).__name__]
        return ReadError(": ".join([*kind, words] if words else kind))
    except BaseException:
        return ReadError(type(error).__name__)


def shown(value: object) -> str:
    """Return a value as a message shows it, whatever its class does."""
    try:
        return f"{value!r:.40}"
    except (Exception, SystemExit):
        return f"a {type(value).__name__}"
