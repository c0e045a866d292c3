"""Trace: the readings of every channel, with their times."""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from operator import attrgetter, itemgetter
from typing import Any, Iterable, NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy import ChannelEnergy, EnergyEstimate, energy_of_passes
from jpwr.errors import NotEnoughSamples

ROWS_TOGETHER = 512
storing = threading.RLock()  # held while rows of any trace are stored; reentrant for signal handlers
# Faults of a region's marks; the words complete a sentence.
NEVER_ENDED, NEVER_BEGUN, BACKWARDS = "never ended", "ended without a beginning", "ended before it began"


class Row(NamedTuple):
    """Readings at one moment, one per channel: None if the channel was not read, nan if the reading failed."""

    time_s: float
    power_w: Sequence[float | None]
    energy_j: Sequence[float | None]


class Event(NamedTuple):
    """Event at a time in seconds, such as the start of the measured command."""

    name: str
    time_s: float
    details: dict[str, Any]


class Region(NamedTuple):
    """Named part of the run, in seconds; names may repeat, and regions may be nested."""

    name: str
    start_s: float
    end_s: float


class Series(NamedTuple):
    """One channel's readings; nan is a missing one. `energy_j` is None without a counter.

    Power was read at `times_s` and the counter at `counter_times_s`, in seconds.
    """

    info: ChannelInfo
    times_s: Sequence[float]
    power_w: Sequence[float]
    energy_j: Sequence[float] | None
    counter_times_s: Sequence[float]

    @property
    def samples(self) -> int:
        """Number of finite samples of power."""
        return sum(1 for power_w in self.power_w if not math.isnan(power_w))

    @property
    def missing(self) -> int:
        """Number of failed readings of power."""
        return len(self.power_w) - self.samples


class Trace:
    """Readings of one node's channels, in the order of time for each channel."""

    def __init__(self, channels: Sequence[ChannelInfo], meta: dict[str, Any] | None = None) -> None:
        self.channels = list(channels)
        self.meta: dict[str, Any] = dict(meta or {})
        self.events: list[Event] = []
        self._times_s = [array("d") for _ in self.channels]
        self._power_w = [array("d") for _ in self.channels]
        self._counter_times_s = [array("d") for _ in self.channels]
        self._energy_j = [array("d") for _ in self.channels]
        self._rows: list[Row] = []
        self._columns = [
            (times_s, power_w, counter_times_s if info.has_counter else None, energy_j)
            for info, times_s, power_w, counter_times_s, energy_j in zip(
                self.channels, self._times_s, self._power_w, self._counter_times_s, self._energy_j
            )
        ]
        self._curves: list[ChannelEnergy] = []

    def append(self, time_s: float, power_w: Sequence[float | None], energy_j: Sequence[float | None]) -> None:
        """Add one row: its time in seconds, watts and joules for each channel."""
        self.extend([Row(time_s, power_w, energy_j)])

    def extend(self, rows: Sequence[Row]) -> None:
        """Add rows, in the order of time."""
        with storing:
            self._rows += rows
        if len(self._rows) >= ROWS_TOGETHER:
            self._store()

    def _store(self) -> None:
        """Append rows to the columns, many at a time to save CPU time."""
        with storing:
            rows, self._rows = self._rows, []
            if not rows:
                return
            self._curves = []
            moments_s = [row.time_s for row in rows]
            powers = zip(*[row.power_w for row in rows])
            counters = zip(*[row.energy_j for row in rows])
            for (times_s, powers_w, counter_times_s, counters_j), power_w, energy_j in zip(
                self._columns, powers, counters
            ):
                _extend(times_s, powers_w, moments_s, power_w)
                if counter_times_s is not None:
                    _extend(counter_times_s, counters_j, moments_s, energy_j)

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Add an event at a time in seconds."""
        self.events.append(Event(name, time_s, details))

    def event_time_s(self, name: str) -> float | None:
        """Return the time of the first event of that name, in seconds, or None."""
        return next((event.time_s for event in self.events if event.name == name), None)

    def regions(self) -> list[Region]:
        """Return the complete regions, in the order of their ends; an end closes the latest open beginning."""
        return self._regions()[0]

    def faulty_marks(self) -> dict[str, dict[str, int]]:
        """Return the number of marks that belong to no complete region, by kind of fault and name."""
        return self._regions()[1]

    def _regions(self) -> tuple[list[Region], dict[str, dict[str, int]]]:
        marks: dict[str, list[Event]] = {}
        for event in self.events:
            if event.name in ("region_begin", "region_end"):
                marks.setdefault(event.details["region"], []).append(event)
        found: list[Region] = []
        faults: dict[str, dict[str, int]] = {kind: {} for kind in (NEVER_ENDED, NEVER_BEGUN, BACKWARDS)}
        for name, of_name in marks.items():
            regions, of_kinds = _paired(name, of_name)
            # Marks of several threads or processes may be written in another order than that of their times.
            if of_kinds:
                by_time = _paired(name, sorted(of_name, key=attrgetter("time_s")))
                if set(by_time[1]) <= {NEVER_ENDED}:
                    regions, of_kinds = by_time
            found += regions
            for kind, times in of_kinds.items():
                faults[kind][name] = times
        return sorted(found, key=attrgetter("end_s")), {kind: names for kind, names in faults.items() if names}

    @property
    def start_s(self) -> float:
        """Time of the first sample of power in seconds; nan without any."""
        self._store()
        return min((times_s[0] for times_s in self._times_s if times_s), default=math.nan)

    @property
    def end_s(self) -> float:
        """Time of the last sample of power in seconds; nan without any."""
        self._store()
        return max((times_s[-1] for times_s in self._times_s if times_s), default=math.nan)

    def series(self, start_s: float = -math.inf, end_s: float = math.inf) -> list[Series]:
        """Return the readings of each channel from `start_s` to `end_s`, both included."""
        self._store()
        found = []
        for info, (times_s, power_w, counter_times_s, energy_j) in zip(self.channels, self._columns):
            rows = _rows(times_s, start_s, end_s)
            if counter_times_s is None:
                found.append(Series(info, times_s[rows], power_w[rows], None, array("d")))
                continue
            counted = _rows(counter_times_s, start_s, end_s)
            found.append(Series(info, times_s[rows], power_w[rows], energy_j[counted], counter_times_s[counted]))
        return found

    def energies(self, start_s: float, end_s: float) -> list[EnergyEstimate]:
        """Return the energy of each channel in a window, given in seconds.

        Raises NotEnoughSamples if the trace does not cover the window, or a channel has too few readings in it.
        """
        found = self.sums([(start_s, end_s)])
        for info, estimate in zip(self.channels, found):
            if estimate.unknown:
                raise NotEnoughSamples(f"{info.name} {estimate.unknown}")
        return found

    def sums(self, windows_s: Iterable[tuple[float, float]], also_beyond: bool = False) -> list[EnergyEstimate]:
        """Return the energy of each channel over several windows; that of a channel with too few readings is unknown.

        Windows are starts and ends in seconds. Raises NotEnoughSamples unless the trace covers all of them, or
        `also_beyond` is set.
        """
        in_order = sorted(windows_s, key=itemgetter(1))
        for window_s in () if also_beyond else in_order:
            self._check_covered(*window_s)
        return [energy_of_passes(curve, in_order) for curve in self.curves()]

    def idle_power_w(self) -> list[float]:
        """Return the average power of each channel in watts before the command; nan without samples of that time.

        Only the second half of that time counts: an H200 was at 129 W for up to 1.4 s after a job before it fell to
        80 W.
        """
        started_s = self.event_time_s("command_started")
        until_s = math.nan if started_s is None else started_s
        try:
            idle = self.sums([((self.start_s + until_s) / 2, until_s)])
        except NotEnoughSamples:
            return [math.nan] * len(self.channels)
        return [math.nan if one.unknown or one.samples < 3 else one.avg_power_w for one in idle]

    def curves(self) -> list[ChannelEnergy]:
        """Return the energy of each channel as a function of a window."""
        self._store()
        if not self._curves:
            random_phase = bool(self.meta.get("random_phase"))
            self._curves = [
                ChannelEnergy(info, times_s, power_w, counter_times_s or (), energy_j, random_phase)
                for info, (times_s, power_w, counter_times_s, energy_j) in zip(self.channels, self._columns)
            ]
        return self._curves

    def covers(self, start_s: float, end_s: float) -> bool:
        """Whether the trace covers a window, given in seconds."""
        return self.start_s <= start_s <= end_s <= self.end_s  # nan compares false

    def _check_covered(self, start_s: float, end_s: float) -> None:
        if not self.covers(start_s, end_s):
            covered = f"{self.start_s:.3f} s to {self.end_s:.3f} s" if self.start_s == self.start_s else "nothing"
            raise NotEnoughSamples(
                f"the window {start_s:.3f} s to {end_s:.3f} s is not covered by the trace, which has {covered}: "
                "start the sampler before the window and stop it after"
            )


def _paired(name: str, marks: Sequence[Event]) -> tuple[list[Region], Counter[str]]:
    """Return the regions from the marks of one name, and the number of faults of each kind."""
    opened_s: list[float] = []
    found: list[Region] = []
    faults: Counter[str] = Counter()
    for mark in marks:
        if mark.name == "region_begin":
            opened_s.append(mark.time_s)
        elif not opened_s:
            faults[NEVER_BEGUN] += 1
        elif opened_s[-1] <= mark.time_s:  # nan compares false
            found.append(Region(name, opened_s.pop(), mark.time_s))
        else:
            opened_s.pop()
            faults[BACKWARDS] += 1
    if opened_s:
        faults[NEVER_ENDED] = len(opened_s)
    return found, faults


def _rows(times_s: Sequence[float], start_s: float, end_s: float) -> slice:
    return slice(bisect_left(times_s, start_s), bisect_right(times_s, end_s))


def _extend(
    times_s: array[float], values: array[float], moments_s: Sequence[float], readings: Sequence[float | None]
) -> None:
    """Append readings and their times, without those that are None."""
    times_s.extend([time_s for time_s, value in zip(moments_s, readings) if value is not None])
    values.extend([value for value in readings if value is not None])
