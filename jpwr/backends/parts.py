"""Build a channel from the readings that its sensor offers, and note those that are unavailable."""

from __future__ import annotations

import time
from itertools import count
from typing import Any, Callable, Container, TypeVar, Union

from jpwr.channel import Channel, ChannelInfo
from jpwr.errors import BackendUnavailable, ReadError
from jpwr.process.threads import within


class Lost:
    """Placeholder for a reading that exists but is unavailable: every call raises ReadError with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self) -> float:
        raise ReadError(self.reason)


# NVML queries the GPU for its counter, which takes 3 ms on an H200, nearly all of it CPU time.
SLOW_S = 0.0005
ANSWERS_S = 10.0  # a device that takes longer to open counts as lost
T = TypeVar("T")
Part = Union[Callable[[], float], Lost, None]  # None: sensors of this kind have no such reading


def attempt(make: Callable[[], T]) -> T | Lost:
    """Return the result of `make`, or a Lost with the reason if it fails."""
    try:
        return make()
    except (BackendUnavailable, ReadError) as error:
        return Lost(str(error))


def in_time(make: Callable[[], T], otherwise: Callable[[Lost], T]) -> T:
    """Return the result of `make` for one device, or of `otherwise` if the device does not answer in time.

    One device that hangs therefore does not delay the others.
    """
    found: list[T] = []
    if within(ANSWERS_S, lambda: found.append(make())):
        return found[0]
    return otherwise(Lost(f"it did not answer within {ANSWERS_S:g} s"))


def seconds_of(read: Callable[[], float]) -> float:
    """Return the least CPU time in seconds of three readings; 0 if one takes less than SLOW_S or fails.

    Wall time would include waits for Python's lock while the program computes.
    """
    found_s = []
    for _ in range(3):
        start_s = time.thread_time()
        if isinstance(attempt(read), Lost):
            return 0.0
        found_s.append(time.thread_time() - start_s)
        if found_s[-1] < SLOW_S:
            return 0.0
    return min(found_s)


def one_at_least(power: Part, energy: Part) -> tuple[Part, Part]:
    """Return the two readings of one sensor, with a Lost in place of one that fails while the other one works.

    If both fail, they are kept: the device may be asleep.
    """
    if power is None or energy is None:
        return power, energy
    power_w, energy_j = attempt(power), attempt(energy)
    if isinstance(power_w, Lost) and not isinstance(energy_j, Lost):
        return power_w, energy
    if isinstance(energy_j, Lost) and not isinstance(power_w, Lost):
        return power, energy_j
    return power, energy


def unique(name: str, known: Container[str]) -> str:
    """Return the name, with the next free number appended if it is known: two equal devices have the same label."""
    numbered = (f"{name}#{number}" for number in count(2))
    return name if name not in known else next(found for found in numbered if found not in known)


def channel_of(
    info: ChannelInfo, power: Part, energy: Part = None, status: Callable[[], dict[str, Any]] | None = None
) -> Channel:
    """Return the channel with those of its two readings that are available.

    If neither is, the channel stays, and every reading is missing. Counter properties of `info` are dropped without a
    counter.
    """
    lost = {name: part.reason for name, part in (("power", power), ("counter", energy)) if isinstance(part, Lost)}
    lacks = "; ".join(f"no {name} ({reason})" for name, reason in lost.items())
    read_power_w = None if isinstance(power, Lost) else power
    read_energy_j = None if isinstance(energy, Lost) else energy
    if read_power_w is None and read_energy_j is None:
        lacks = f"cannot be read ({'; '.join(dict.fromkeys(lost.values()))})"
        read_power_w, status = power or energy, None
    info = info._replace(lacks=lacks, has_counter=read_energy_j is not None)
    if read_energy_j is None:
        info = info._replace(counter_resolution_j=0.0, counter_refresh_s=0.0)
    return Channel(info, read_power_w, read_energy_j, status)


def unless_all_are_lost(channels: list[Channel]) -> list[Channel]:
    """Return the channels; raise BackendUnavailable if none of them can be read."""
    reasons = [channel.read_power_w.reason for channel in channels if isinstance(channel.read_power_w, Lost)]
    if channels and len(reasons) == len(channels):
        raise BackendUnavailable(f"none of its sensors can be read: {reasons[0]}")
    return channels
