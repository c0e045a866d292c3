"""Calls of a sampling round, one after the other, and the value that each returned."""

from __future__ import annotations

import enum
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

from jpwr.channel import Channel
from jpwr.errors import ReadError


class Kind(enum.Enum):
    """Kind of a reading."""

    POWER = "power"
    COUNTER = "counter"
    SLOPE = "counter and slope"  # a counter whose slope is the channel's power


class Part(enum.IntEnum):  # has a faster hash than Enum
    """Subset of a round's calls to make."""

    ALL = 0
    COUNTERS = 1
    QUICK_COUNTERS = 2  # without those that take long to read


class Step(NamedTuple):
    """One call of a round."""

    channel: int  # index among all channels
    kind: Kind
    read: Callable[[], Any]


# Calls, the values that they have returned so far (a ReadError if one failed), and the times in seconds: the begin of
# the first call, then the end of each, at which the next one begins. Plain lists: after a sleep, each kind of object
# that is touched takes as long as a call.
Round = Tuple[Sequence[Step], List[Any], List[float]]


class NoAnswer(ReadError):
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


def read_error(error: BaseException) -> ReadError:
    """Return a ReadError with the message of any exception, without its traceback."""
    try:
        words = str(error)
        kind = [] if isinstance(error, ReadError) else [type(error).__name__]
        return ReadError(": ".join([*kind, words] if words else kind))
    except BaseException:
        return ReadError(type(error).__name__)


def safe_repr(value: object) -> str:
    """Return a short representation of a value for a message, even if its __repr__ fails."""
    try:
        return f"{value!r:.40}"
    except (Exception, SystemExit):
        return f"a {type(value).__name__}"
