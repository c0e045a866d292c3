"""Trace: the readings of every channel, with their times."""

from __future__ import annotations

import math
import threading
from array import array
from collections import Counter
from functools import partial
from itertools import chain, compress, repeat
from operator import attrgetter
from typing import Any, Callable, Iterator, NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy import ChannelEnergy, EnergyEstimate, energy_of_passes
from jpwr.errors import NotEnoughSamples
from jpwr.stored import Growing, Store, Stored, kept_as

ROWS_TOGETHER = 512
storing = threading.RLock()  # held while rows of any trace are stored; reentrant for signal handlers
STATUS = "status"  # event with the clocks, temperature and limits of a device; without any, they are unknown since
NO_STATUS = "no_status"  # event at which the status of a channel was asked for, and did not come
# Faults of a region's marks; the words complete a sentence.
NEVER_ENDED, NEVER_BEGUN, BACKWARDS = "never ended", "ended without a beginning", "ended before it began"


class Row(NamedTuple):
    """Readings at one moment, one per channel: None if the channel was not read, nan if the reading failed.

    Every value was read within `half_s` seconds of `time_s`, as a call takes time.
    """

    time_s: float
    power_w: Sequence[float | None]
    energy_j: Sequence[float | None]
    half_s: float = 0.0


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

    Power was read at `times_s` and the counter at `counter_times_s`, in seconds, each within its `half_s` or
    `counter_half_s` seconds.
    """

    info: ChannelInfo
    times_s: Sequence[float]
    power_w: Sequence[float]
    energy_j: Sequence[float] | None
    counter_times_s: Sequence[float]
    half_s: Sequence[float]
    counter_half_s: Sequence[float]

    @property
    def samples(self) -> int:
        """Number of finite samples of power."""
        return sum(1 for power_w in self.power_w if not math.isnan(power_w))

    @property
    def missing(self) -> int:
        """Number of failed readings of power."""
        return len(self.power_w) - self.samples


class Column(NamedTuple):
    """Readings of one quantity in a number of rows: those that are not None, and a byte 1 or 0 for each row.

    `read` is empty if the quantity was read in every row.
    """

    values: array[float]
    read: bytes

    @classmethod
    def of(cls, readings: Sequence[float | None]) -> Column:
        """Return the column of readings, one for each row."""
        if None not in readings:
            return cls(array("d", readings), b"")  # type: ignore[arg-type]
        read = bytes([value is not None for value in readings])
        return cls(array("d", compress(readings, read)), read)  # type: ignore[arg-type]


class Moments:
    """Times at which one or several quantities were read; `half_s` is empty as long as it is 0 for all."""

    def __init__(self, times_s: Growing, half_s: Growing) -> None:
        self.times_s, self._half_s = times_s, half_s

    def copy(self) -> Moments:
        """Return a copy, which has times of its own."""
        return Moments(kept_as(self.times_s, self.times_s), kept_as(self.times_s, self._half_s))

    def extend(self, times_s: Sequence[float], half_s: Sequence[float], read: bytes) -> None:
        """Add the times of the rows in which the quantities were read: all of them if `read` is empty."""
        if any(half_s):
            zeros = repeat(0.0, 0 if self._half_s else len(self.times_s))
            self.half_s.extend(chain(zeros, compress(half_s, read) if read else half_s))
        self.times_s.extend(compress(times_s, read) if read else times_s)

    @property
    def half_s(self) -> Growing:
        """Half of the time in seconds that each reading took; empty if it is 0 for all."""
        if self._half_s:
            self._half_s.extend(repeat(0.0, len(self.times_s) - len(self._half_s)))
        return self._half_s


class Trace:
    """Readings of one node's channels, in the order of time for each channel.

    The columns are power and, with a counter, energy of each channel. Those that were read in the same rows share
    their times. All are in memory, or in a store.
    """

    def __init__(
        self, channels: Sequence[ChannelInfo], meta: dict[str, Any] | None = None, store: Store | None = None
    ) -> None:
        self.channels = list(channels)
        self.meta: dict[str, Any] = dict(meta or {})
        self.events: list[Event] = []
        self._rows: list[Row] = []
        self._is_column = [is_one for info in self.channels for is_one in (True, info.has_counter)]
        new: Callable[[], Growing] = partial(Stored, store) if store else partial(array, "d")
        self._nothing = Moments(new(), new())
        self._values = [new() for _ in filter(None, self._is_column)]
        self._moments = [self._nothing.copy()] * len(self._values)

    def append(
        self,
        time_s: float,
        power_w: Sequence[float | None],
        energy_j: Sequence[float | None],
        half_s: float = 0.0,
    ) -> None:
        """Add one row: its time in seconds, watts and joules for each channel, and half of the time it took."""
        self.extend([Row(time_s, power_w, energy_j, half_s)])

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
            times_s, powers_w, energies_j, half_s = zip(*rows)
            readings = chain.from_iterable(zip(zip(*powers_w), zip(*energies_j)))
            self._add(times_s, half_s, [*map(Column.of, compress(readings, self._is_column))])

    def extend_columns(self, times_s: Sequence[float], half_s: Sequence[float], columns: Sequence[Column]) -> None:
        """Add rows as columns: their times, half of the time that each took or nothing, and what was read in them."""
        self._store()
        self._add(times_s, half_s, columns)

    def _add(self, times_s: Sequence[float], half_s: Sequence[float], columns: Sequence[Column]) -> None:
        moments: dict[tuple[int, bytes], Moments] = {}
        for number, (column, values) in enumerate(zip(columns, self._values)):
            before = self._moments[number]
            key = id(before), column.read
            if key not in moments:  # the first keeps the object, and columns that are read in other rows have a copy
                moments[key] = before.copy() if before in moments.values() else before
            self._moments[number] = moments[key]
            values.extend(column.values)
        for (_, read), one in moments.items():
            one.extend(times_s, half_s, read)

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
        return min((times_s[0] for times_s, _ in self.power() if times_s), default=math.nan)

    @property
    def end_s(self) -> float:
        """Time of the last sample of power in seconds; nan without any."""
        return max((times_s[-1] for times_s, _ in self.power() if times_s), default=math.nan)

    def _by_channel(self) -> Iterator[tuple[ChannelInfo, Growing, Moments, Growing | None, Moments]]:
        """Yield each channel with its power and the moments of it, and with its counter, None without one."""
        self._store()
        columns = zip(self._values, self._moments)
        for info in self.channels:
            power_w, moments = next(columns)
            yield (info, power_w, moments, *(next(columns) if info.has_counter else (None, self._nothing)))

    def series(self) -> list[Series]:
        """Return the readings of each channel, as copies."""
        return [
            Series(
                info,
                power.times_s[:],
                power_w[:],
                None if energy_j is None else energy_j[:],
                counter.times_s[:],
                power.half_s[:] or array("d", [0.0]) * len(power.times_s),
                counter.half_s[:] or array("d", [0.0]) * len(counter.times_s),
            )
            for info, power_w, power, energy_j, counter in self._by_channel()
        ]

    def energies(self, start_s: float, end_s: float) -> list[EnergyEstimate]:
        """Return the energy of each channel in a window, given in seconds.

        Raises NotEnoughSamples if the trace does not cover the window, or a channel has too few readings in it.
        """
        self.check_covered(start_s, end_s)
        estimates = [energy_of_passes(curve, [(start_s, end_s)]) for curve in self.curves()]
        for info, estimate in zip(self.channels, estimates):
            if estimate.unknown:
                raise NotEnoughSamples(f"{info.name} {estimate.unknown}")
        return estimates

    def idle_power_w(self, curve: ChannelEnergy) -> float:
        """Return the average power of one of the curves in watts before the command; nan without samples of that time.

        Only the second half of that time counts: an H200 was at 129 W for up to 1.4 s after a job before it fell to
        80 W.
        """
        started_s = self.event_time_s("command_started")
        if started_s is None or not self.covers(since_s := (self.start_s + started_s) / 2, started_s):
            return math.nan
        idle = energy_of_passes(curve, [(since_s, started_s)])
        return math.nan if idle.unknown or idle.samples < 3 else idle.avg_power_w

    def curves(self) -> Iterator[ChannelEnergy]:
        """Yield the energy of each channel as a function of a window, each made when it is asked for."""
        random_phase = bool(self.meta.get("random_phase"))
        for info, power_w, power, energy_j, counter in self._by_channel():
            readings = (power.times_s, power_w, counter.times_s, energy_j or ())
            yield ChannelEnergy(info, *readings, random_phase, power.half_s, counter.half_s)

    def power(self) -> list[tuple[Sequence[float], Sequence[float]]]:
        """Return times and readings of power of each channel in seconds and watts: not copies, which later rows change.

        A missing reading is nan.
        """
        return [(moments.times_s, power_w) for _, power_w, moments, _, _ in self._by_channel()]

    def covers(self, start_s: float, end_s: float) -> bool:
        """Whether the trace covers a window, given in seconds."""
        return self.start_s <= start_s <= end_s <= self.end_s  # nan compares false

    def check_covered(self, start_s: float, end_s: float) -> None:
        """Raise NotEnoughSamples unless the trace covers a window, given in seconds."""
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
