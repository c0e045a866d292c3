"""Turn readings into rows: check each one, count and report those that fail, and hand all to the sinks."""

from __future__ import annotations

import math
import operator
import threading
from collections import deque
from typing import Any, Callable, Protocol, Sequence

from jpwr.channel import MOST, MOST_W, Channel
from jpwr.errors import ReadError
from jpwr.process.clock import Clock
from jpwr.sampling.pace import FEW_ROUNDS
from jpwr.sampling.round import Kind, Reading, Silence, shown
from jpwr.sampling.sentinels import NO_POWER_W, TIMES_LIMIT, bounds_w
from jpwr.sampling.slope import Slope
from jpwr.trace.trace import Row

# Readings that are no further apart are of one moment: at 1 kW, 0.2 J may pass in between.
SAME_MOMENT_S = 0.0002
# A reading that takes so long, where others do not, is of no known moment: at 300 W, 15 J may pass meanwhile.
LONG_S = 0.05


class Sink(Protocol):
    """Receiver of rows, in groups of about one second: a Trace, a file, running totals."""

    def extend(self, rows: Sequence[Row]) -> None: ...

    def event(self, name: str, time_s: float, /, **details: Any) -> None: ...


class Recorder:
    """Collector of rounds of readings from any thread; hand_on() turns them into rows.

    A reading that fails, for any reason, is `nan`, is counted, and is reported once.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        sinks: Sequence[Sink],
        interval_s: float,
        clock: Clock,
        warn: Callable[[str], None],
    ) -> None:
        self.clock, self.warn = clock, warn
        self._infos = [channel.info for channel in channels]
        self._sinks = list(sinks)
        self._periods_s = [max(interval_s, info.period_s) for info in self._infos]
        self._bounds_w = [bounds_w(info) for info in self._infos]
        self._slopes = [
            None if channel.read_power_w else Slope(period_s) for channel, period_s in zip(channels, self._periods_s)
        ]
        self._rounds: deque[list[Reading]] = deque()  # not handed on yet
        self._told: dict[int, dict[str, float]] = {}  # when it was reported of a channel's readings that they fail
        self._long_s: dict[tuple[int, bool], float] = {}  # when a reading last took long
        self._unsaid: list[str] = []
        self._is_handing_on = False
        self.lock = threading.RLock()  # a signal may be handled by its owner, who marks a region
        self.began_s = math.inf
        self.skipped_ticks = 0
        self.failed_reads = {info.name: 0 for info in self._infos}
        self.counters_j = [math.nan] * len(self._infos)  # as last handed on; nan where there is none

    def skip(self, ticks: int) -> None:
        """Count ticks at which nothing was read."""
        self.skipped_ticks += ticks

    def add(self, readings: list[Reading]) -> None:
        """Keep the readings of a round until they are handed on."""
        self._rounds.append(readings)

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Hand an event to all sinks, after what was read before it."""
        with self.lock:
            self._hand_on_rounds()
            for sink in self._sinks:
                sink.event(name, time_s, **details)

    def hand_on(self) -> None:
        """Hand what was read until now to all sinks."""
        with self.lock:
            self._hand_on_rounds()
            unsaid, self._unsaid = self._unsaid, []
        for words in unsaid:  # without the lock: a warning may take its time, or come back here
            self.warn(words)

    def _hand_on_rounds(self) -> None:
        if self._is_handing_on:
            return  # in the midst of it a signal is handled: what was read later must not overtake
        self._is_handing_on = True
        try:
            rows: list[Row] = []
            while self._rounds:
                rows += self._rows(self._rounds.popleft())
            rows.sort(key=operator.itemgetter(0))  # there may be several lanes
            if rows:
                for sink in self._sinks:
                    sink.extend(rows)
        finally:
            self._is_handing_on = False

    def _rows(self, readings: Sequence[Reading]) -> list[Row]:
        """Return one row for all that was read at one moment."""
        rows: list[Row] = []
        row_s = -math.inf
        watts: list[float | None] = []
        joules: list[float | None] = []
        for index, kind, value, begin_s, end_s in readings:
            time_s = (begin_s + end_s) / 2
            is_power = kind is Kind.POWER
            if end_s - begin_s > LONG_S and self._is_out_of_time(index, is_power, time_s, end_s - begin_s):
                self.skipped_ticks += 1
                continue
            if time_s - row_s > SAME_MOMENT_S:
                row_s, watts, joules = time_s, [None] * len(self._infos), [None] * len(self._infos)
                rows.append(Row(row_s, watts, joules))
            number = self._number(index, is_power, value, time_s)
            if is_power:
                watts[index] = number
                continue
            self.counters_j[index] = joules[index] = number
            slope = self._slopes[index]
            if slope is not None:  # also readings of the counter alone tell its pace
                slope_w = slope.watts_at(time_s, number)
                if kind is Kind.SLOPE:
                    watts[index] = slope_w
        return rows

    def _is_out_of_time(self, index: int, is_power: bool, time_s: float, took_s: float) -> bool:
        """Whether a reading took so long, and longer than others of it, that its value is of no known moment."""
        around_s = took_s + self._periods_s[index]
        is_first = time_s - self.began_s <= around_s
        last_s = self._long_s.get((index, is_power), -math.inf)
        self._long_s[index, is_power] = time_s
        is_usual = time_s - last_s <= 2 * FEW_ROUNDS * around_s
        return took_s > self._infos[index].period_s and not is_first and not is_usual

    def _number(self, index: int, is_power: bool, value: Any, time_s: float) -> float:
        """Return what is recorded for a reading: a number that a machine can have, or nan."""
        if isinstance(value, ReadError):
            return self._failed(index, is_power, value, time_s)
        try:
            number = float(value)
        except (Exception, SystemExit):
            return self._failed(index, is_power, ReadError(f"it tells {shown(value)}, which is no number"), time_s)
        least, most = self._bounds_w[index] if is_power else (-MOST, MOST)
        if least <= number <= most and not (is_power and number in NO_POWER_W):
            return number
        kind = "power" if is_power else "counter"
        whose = f"a device with a limit of {most / TIMES_LIMIT:g} W" if most < number < MOST_W else "any machine"
        error = ReadError(f"it tells {shown(value)}, which is no {kind} of {whose}")
        return self._failed(index, is_power, error, time_s)

    def _failed(self, index: int, is_power: bool, error: ReadError, time_s: float) -> float:
        """Count a missing reading, report it once, and return nan."""
        info, kind = self._infos[index], "power" if is_power else "counter"
        self.failed_reads[info.name] += 1
        told_s = self._told.setdefault(index, {})
        if isinstance(error, Silence) or kind in told_s or info.lacks.startswith("cannot be read"):
            return math.nan
        # Power and counter that fail together are reported together, and one that fails later by itself.
        is_told = any(time_s - before_s <= self._periods_s[index] for before_s in told_s.values())
        which = f"{kind}: " if told_s else ""
        told_s[kind] = time_s
        if not is_told:
            self._unsaid.append(f"{info.name}: {which}{error}; readings that fail are recorded as missing")
        return math.nan
