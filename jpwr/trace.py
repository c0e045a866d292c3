"""A trace: what was read from every channel, and when."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy import Accumulator, EnergyEstimate, Totals, estimate_energy
from jpwr.errors import NotEnoughSamples


class Event(NamedTuple):
    """Something that happened at a moment of the trace, such as the start of the measured command."""

    name: str
    time_s: float
    details: dict[str, Any]


class Region(NamedTuple):
    """A named part of the run; the same name may come more than once, and regions may lie in each other."""

    name: str
    start_s: float
    end_s: float


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
    """Readings of one node's channels, each channel's in the order of time."""

    def __init__(self, channels: Sequence[ChannelInfo], meta: dict[str, Any] | None = None) -> None:
        self.channels = list(channels)
        self.meta: dict[str, Any] = dict(meta or {})
        self.events: list[Event] = []
        self._times_s = [array("d") for _ in self.channels]
        self._power_w = [array("d") for _ in self.channels]
        self._energy_j = [array("d") if info.has_counter else None for info in self.channels]

    def append(self, time_s: float, power_w: Sequence[float | None], energy_j: Sequence[float | None]) -> None:
        """Add one row: for each channel its power in watts and its counter in joules.

        A power of None is a channel that this row did not read; `nan` is a reading that failed.
        """
        for index, power in enumerate(power_w):
            if power is None:
                continue
            self._times_s[index].append(time_s)
            self._power_w[index].append(power)
            counter = self._energy_j[index]
            if counter is not None:
                value = energy_j[index]
                counter.append(math.nan if value is None else value)

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        self.events.append(Event(name, time_s, details))

    def event_time_s(self, name: str) -> float | None:
        """When the first event of that name happened, or None."""
        return next((event.time_s for event in self.events if event.name == name), None)

    def regions(self) -> list[Region]:
        """The regions that were marked and ended, in the order of their ends. An end closes the last open beginning."""
        opened: dict[str, list[float]] = {}
        found = []
        for event in self.events:
            name = event.details.get("region", "")
            if event.name == "region_begin":
                opened.setdefault(name, []).append(event.time_s)
            elif event.name == "region_end" and opened.get(name):
                found.append(Region(name, opened[name].pop(), event.time_s))
        return found

    @property
    def start_s(self) -> float:
        """Time of the first reading, `nan` without any."""
        return min((times_s[0] for times_s in self._times_s if times_s), default=math.nan)

    @property
    def end_s(self) -> float:
        """Time of the last reading, `nan` without any."""
        return max((times_s[-1] for times_s in self._times_s if times_s), default=math.nan)

    def series(self, start_s: float = -math.inf, end_s: float = math.inf) -> list[Series]:
        """The readings of each channel from `start_s` to `end_s`, both included."""
        found = []
        for info, times_s, power_w, counter in zip(self.channels, self._times_s, self._power_w, self._energy_j):
            rows = slice(bisect_left(times_s, start_s), bisect_right(times_s, end_s))
            found.append(Series(info, times_s[rows], power_w[rows], counter[rows] if counter is not None else None))
        return found

    def energies(self, start_s: float, end_s: float) -> list[EnergyEstimate]:
        """The energy of each channel over exactly that window, its edges interpolated between readings.

        Raises NotEnoughSamples when the trace does not reach over the window, or a channel has no two readings in it.
        """
        if not (self.start_s <= start_s and end_s <= self.end_s):  # nan compares false
            covered = f"{self.start_s:.3f} s to {self.end_s:.3f} s" if self.start_s == self.start_s else "nothing"
            raise NotEnoughSamples(
                f"the window {start_s:.3f} s to {end_s:.3f} s is not covered by the trace, which has {covered}: "
                "start the sampler before the window and stop it after"
            )
        return [self._energy(series, start_s, end_s) for series in self.series()]

    def _energy(self, series: Series, start_s: float, end_s: float) -> EnergyEstimate:
        accumulator = Accumulator()
        start: Totals | None = None
        end: Totals | None = None
        for index, time_s in enumerate(series.times_s):
            counter_j = series.energy_j[index] if series.energy_j is not None else math.nan
            accumulator.add(time_s, series.power_w[index], counter_j)
            if start is None and time_s >= start_s:
                start = accumulator.at(start_s)
            if end is None and time_s >= end_s:
                end = accumulator.at(end_s)
        whole = accumulator.last
        if start is None:
            raise NotEnoughSamples(f"channel {series.info.name} has no reading after {start_s:.3f} s: it stopped early")
        # A channel that ends before its window does is short of samples, and its estimate says how sure it is.
        end = (end or whole)._replace(time_s=end_s)
        return estimate_energy(
            start._replace(time_s=start_s), end, whole, series.info, bool(self.meta.get("random_phase"))
        )
