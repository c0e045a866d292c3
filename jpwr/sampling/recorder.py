"""Calls of a sampling round, and their values as rows: validated, those that fail counted and reported."""

from __future__ import annotations

import enum
import math
import operator
import threading
from bisect import bisect_right
from collections import deque
from typing import Any, Callable, List, NamedTuple, Protocol, Sequence, Tuple

from jpwr.channel import MOST, MOST_W, NO_POWER_W, TIMES_LIMIT, Channel, bounds_w
from jpwr.errors import ReadError
from jpwr.process.clock import Clock
from jpwr.trace.trace import Row

# Calls that together take no longer than this share a row: at 1 kW, that is 0.2 J.
SAME_MOMENT_S = 0.0002
LEAST_STEP = 0.5  # intervals between two readings of a slope: closer ones resolve no power
# The time in which a value was read or refreshed has to be short compared with the time between the two values of a
# slope, which is at least so many times as long. A counter that two readings have shown unchanged refreshes less often
# than it is read: the moment of a refresh is then known to one interval only.
TIMES_LONGER = 4.0
STILL_S = 3.0  # a counter that is unchanged for longer has stopped: its power is 0


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
    kind = "" if isinstance(error, ReadError) else type(error).__name__
    return ReadError(": ".join(filter(None, (kind, str(error)))))


class Slope:
    """Slope in watts of one counter that is read about every `interval_s` seconds."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last_j = self._watts = math.nan
        self._bases = [(math.nan, math.nan, 0.0)] * 2  # of the last two slopes, latest first: time, value, half_s
        self._is_slow = False
        self._since_change = False  # whether the latest base showed a new value

    def watts_at(self, time_s: float, counter_j: float, half_s: float = 0.0) -> float:
        """Return the average power in watts since an earlier reading, or the last power if the counter is unchanged.

        The counter was read within `half_s` seconds of `time_s`. Return nan for the first reading, a failed one, a
        counter that fell, and a power above MOST_W.
        """
        if math.isnan(counter_j):
            return math.nan
        has_refreshed, self._last_j = counter_j != self._last_j, counter_j
        now = time_s, counter_j, half_s
        (base_s, base_j, base_half_s), (older_s, older_j, _) = self._bases
        step_s, step_j = time_s - base_s, counter_j - base_j
        if not step_j >= 0:
            self._bases, self._watts = [now, (math.nan, math.nan, 0.0)], math.nan
            self._since_change = False
        elif not has_refreshed:
            self._is_slow = self._is_slow or step_s > 0
            if step_s > STILL_S:
                self._watts = 0.0
        elif self._is_slow and not self._since_change:  # the age of the first value is unknown
            self._bases[0], self._since_change = now, True
        elif step_s < TIMES_LONGER * (half_s + base_half_s):
            pass  # a call took long
        elif step_s >= (TIMES_LONGER if self._is_slow else LEAST_STEP) * self._interval_s:
            self._bases, self._watts = [now, self._bases[0]], step_j / step_s
        elif not self._is_slow:
            self._watts = (counter_j - older_j) / (time_s - older_s)
        return self._watts if self._watts <= MOST_W else math.nan


class Sink(Protocol):
    """Receiver of rows, in groups of about one second: a Trace, a file, running totals."""

    def extend(self, rows: Sequence[Row]) -> None:
        """Take rows, in the order of time."""

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Take an event at a time in seconds."""


class Recorder:
    """Collector of rounds of readings from any thread; flush() turns them into rows.

    A reading that fails, for any reason, is recorded as nan, counted, and reported once.
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
        # Most readings need no other check than that they are between these two.
        self._plain_w = [(least, min(most, *NO_POWER_W)) for least, most in self._bounds_w]
        self._slopes = [
            None if channel.read_power_w else Slope(period_s) for channel, period_s in zip(channels, self._periods_s)
        ]
        self._rounds: deque[Round] = deque()  # not flushed yet
        self._reported_s: dict[int, dict[str, float]] = {}  # by channel and kind, when a failure was reported
        self._warnings: list[str] = []  # not printed yet
        self._is_flushing = False
        self.lock = threading.RLock()  # reentrant: the owner may handle a signal that marks a region
        self.skipped_ticks = 0
        self.failed_reads = {info.name: 0 for info in self._infos}
        self.counters_j = [math.nan] * len(self._infos)  # at the last flush; nan without a counter

    def skip(self, ticks: int) -> None:
        """Count ticks at which nothing was read."""
        self.skipped_ticks += ticks

    def add(self, readings: Round) -> None:
        """Keep the readings of a round until the next flush."""
        self._rounds.append(readings)

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Pass an event at a time in seconds to all sinks, after the readings before it."""
        with self.lock:
            self._flush_rounds()
            for sink in self._sinks:
                sink.event(name, time_s, **details)

    def flush(self) -> None:
        """Pass all readings so far to all sinks, and print the warnings about them."""
        with self.lock:
            self._flush_rounds()
            warnings, self._warnings = self._warnings, []
        for warning in warnings:  # without the lock: a warning may take long, or call flush()
            self.warn(warning)

    def _flush_rounds(self) -> None:
        if self._is_flushing:
            return  # called from a signal handler during a flush: later readings must not come first
        self._is_flushing = True
        try:
            rows: list[Row] = []
            while self._rounds:
                rows += self._rows(*self._rounds.popleft())
            rows.sort(key=operator.itemgetter(0))  # there may be several lanes
            if rows:
                for sink in self._sinks:
                    sink.extend(rows)
        finally:
            self._is_flushing = False

    def _rows(self, steps: Sequence[Step], values: Sequence[Any], times_s: Sequence[float]) -> list[Row]:
        """Return the rows of a round: one for all calls of one moment."""
        rows: list[Row] = []
        begin = 0
        while begin < len(values):
            last_s = times_s[begin] + SAME_MOMENT_S
            end = max(begin + 1, bisect_right(times_s, last_s, begin, len(values) + 1) - 1)
            rows.append(self._row(steps[begin:end], values[begin:end], times_s[begin], times_s[end]))
            begin = end
        return rows

    def _row(self, steps: Sequence[Step], values: Sequence[Any], begin_s: float, end_s: float) -> Row:
        """Return the row of calls that began and ended at these times: each value was read at some time between."""
        time_s = (begin_s + end_s) / 2
        half_s = (end_s - begin_s) / 2 if end_s - begin_s > SAME_MOMENT_S else 0.0
        watts: list[float | None] = [None] * len(self._infos)
        joules: list[float | None] = [None] * len(self._infos)
        for (index, kind, _), value in zip(steps, values):
            is_power = kind is Kind.POWER
            least, most = self._plain_w[index] if is_power else (-MOST, MOST)
            if not (type(value) is float and least <= value < most):
                value = self._number(index, is_power, value, time_s)
            if is_power:
                watts[index] = value
                continue
            self.counters_j[index] = joules[index] = value
            slope = self._slopes[index]
            if slope is not None:  # readings outside of full rounds contribute, too
                slope_w = slope.watts_at(time_s, value, half_s)
                if kind is Kind.SLOPE:
                    watts[index] = slope_w
        return Row(time_s, watts, joules, half_s)

    def _number(self, index: int, is_power: bool, value: Any, time_s: float) -> float:
        """Return the number to record for a reading: its value if that is plausible, otherwise nan."""
        if isinstance(value, ReadError):
            return self._failed(index, is_power, value, time_s)
        try:
            number = float(value)
        except (Exception, SystemExit):
            return self._failed(index, is_power, ReadError(f"it returns {value!r:.40}, not a number"), time_s)
        least, most = self._bounds_w[index] if is_power else (-MOST, MOST)
        if least <= number <= most and not (is_power and number in NO_POWER_W):
            return number
        kind = "power" if is_power else "counter"
        whose = f"a device with a limit of {most / TIMES_LIMIT:g} W" if most < number < MOST_W else "any machine"
        error = ReadError(f"it returns {value!r:.40}, not a plausible {kind} of {whose}")
        return self._failed(index, is_power, error, time_s)

    def _failed(self, index: int, is_power: bool, error: ReadError, time_s: float) -> float:
        """Count a missing reading, report it once, and return nan."""
        info, kind = self._infos[index], "power" if is_power else "counter"
        self.failed_reads[info.name] += 1
        reported_s = self._reported_s.setdefault(index, {})
        if isinstance(error, NoAnswer) or kind in reported_s or info.lacks.startswith("cannot be read"):
            return math.nan
        # Power and counter that fail together are one warning; one that fails later is another.
        is_reported = any(time_s - before_s <= self._periods_s[index] for before_s in reported_s.values())
        which = f"{kind}: " if reported_s else ""
        reported_s[kind] = time_s
        if not is_reported:
            self._warnings.append(f"{info.name}: {which}{error}; failed readings are recorded as missing")
        return math.nan
