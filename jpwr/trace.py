"""A trace: what was read from every channel, and when."""

from __future__ import annotations

import math
from array import array
from typing import Any, NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.errors import NotEnoughSamples


class Event(NamedTuple):
    """Something that happened at a moment of the trace, such as the start of the measured command."""

    name: str
    time_s: float
    details: dict[str, Any]


class Series(NamedTuple):
    """One channel's readings; `nan` is a reading that is missing. `energy_j` is None without a counter."""

    info: ChannelInfo
    times_s: Sequence[float]
    power_w: Sequence[float]
    energy_j: Sequence[float] | None

    @property
    def samples(self) -> int:
        return sum(1 for power_w in self.power_w if not math.isnan(power_w))

    @property
    def missing(self) -> int:
        return len(self.power_w) - self.samples


class Trace:
    """Rows of one node's channels, in the order of time."""

    def __init__(self, channels: Sequence[ChannelInfo], meta: dict[str, Any] | None = None) -> None:
        self.channels = list(channels)
        self.meta: dict[str, Any] = dict(meta or {})
        self.events: list[Event] = []
        self.times_s = array("d")
        self._power_w = [array("d") for _ in self.channels]
        self._energy_j = [array("d") if info.has_counter else None for info in self.channels]

    def append(self, time_s: float, power_w: Sequence[float], energy_j: Sequence[float]) -> None:
        """Add one row: for each channel its power in watts and its counter in joules (`nan` where it has none)."""
        self.times_s.append(time_s)
        for column, value in zip(self._power_w, power_w):
            column.append(value)
        for counter, value in zip(self._energy_j, energy_j):
            if counter is not None:
                counter.append(value)

    def event(self, name: str, time_s: float, **details: Any) -> None:
        self.events.append(Event(name, time_s, details))

    def event_time_s(self, name: str) -> float | None:
        """When the first event of that name happened, or None."""
        return next((event.time_s for event in self.events if event.name == name), None)

    def series(self, start_s: float = -math.inf, end_s: float = math.inf) -> list[Series]:
        """The readings of each channel from `start_s` to `end_s`, both included."""
        first = next((i for i, time_s in enumerate(self.times_s) if time_s >= start_s), len(self.times_s))
        last = next((i for i in range(len(self.times_s), first, -1) if self.times_s[i - 1] <= end_s), first)
        rows = slice(first, last)
        return [
            Series(info, self.times_s[rows], power_w[rows], counter[rows] if counter is not None else None)
            for info, power_w, counter in zip(self.channels, self._power_w, self._energy_j)
        ]

    def between(self, start_s: float, end_s: float) -> list[Series]:
        """Each channel's readings over exactly that window, its two edges interpolated between their neighbours.

        Raises NotEnoughSamples when the trace does not reach over the window.
        """
        if not self.times_s or self.times_s[0] > start_s or self.times_s[-1] < end_s:
            covered = f"{self.times_s[0]:.3f} s to {self.times_s[-1]:.3f} s" if self.times_s else "nothing"
            raise NotEnoughSamples(
                f"the window {start_s:.3f} s to {end_s:.3f} s is not covered by the trace, which has {covered}: "
                "start the sampler before the window and stop it after"
            )
        everything = self.series()
        return [
            Series(
                inside.info,
                array("d", [start_s, *inside.times_s, end_s]),
                _with_edges(inside.power_w, whole.times_s, whole.power_w, start_s, end_s),
                _with_edges(inside.energy_j, whole.times_s, whole.energy_j, start_s, end_s)
                if inside.energy_j is not None and whole.energy_j is not None
                else None,
            )
            for whole, inside in zip(everything, self.series(start_s, end_s))
        ]


def _with_edges(
    inside: Sequence[float], times_s: Sequence[float], values: Sequence[float], start_s: float, end_s: float
) -> array[float]:
    return array("d", [interpolate(times_s, values, start_s), *inside, interpolate(times_s, values, end_s)])


def interpolate(times_s: Sequence[float], values: Sequence[float], at_s: float) -> float:
    """The value at `at_s`, on a straight line between its two finite neighbours; `nan` where it has not both."""
    before = after = None
    for time_s, value in zip(times_s, values):
        if math.isnan(value):
            continue
        if time_s <= at_s:
            before = (time_s, value)
        if time_s >= at_s:
            after = (time_s, value)
            break
    if before is None or after is None:
        return math.nan
    if after[0] == before[0]:
        return before[1]
    share = (at_s - before[0]) / (after[0] - before[0])
    return before[1] + share * (after[1] - before[1])
