"""Read every channel at absolute deadlines until told to stop."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from array import array
from collections import deque
from functools import partial
from operator import itemgetter
from types import TracebackType
from typing import Any, Callable, Optional, Protocol, Sequence, Tuple

from jpwr import threads
from jpwr.channel import Channel
from jpwr.clock import Clock, SystemClock
from jpwr.errors import JpwrError, ReadError
from jpwr.slope import Slope
from jpwr.trace import Row, Trace

# NVML averages over a window of its own, so sampling much faster than it refreshes
# adds rows and no information (Yang et al. 2023, arXiv:2312.02741).
DEFAULT_INTERVAL_S = 0.1
STATUS_INTERVAL_S = 1.0
# Readings that are no further apart are of one moment: at 1 kW, 0.2 J may pass in between.
SAME_MOMENT_S = 0.0002
# How often a counter is renewed shows in readings that are close together: the first ticks are followed by such ones.
PROBES = tuple(0.3 / 2**power for power in range(8)) * 3  # shares of the interval
# A reading that takes longer than this holds up its neighbours: they go on in another thread.
HUNG_S = 0.5
WATCH_INTERVAL_S = 1.0  # a wake-up takes as much CPU time as five readings
JOIN_S = 2.0
# Readings are handed on so many seconds' together: a sleeper that has just woken is slow at all that it does.
HAND_ON_S = 1.0


class Sink(Protocol):
    """Where rows go, about a second's together: a Trace, a file, running totals."""

    def extend(self, rows: Sequence[Row]) -> None: ...

    def event(self, name: str, time_s: float, /, **details: Any) -> None: ...


def _warn(message: str) -> None:
    print(f"jpwr: {message}", file=sys.stderr)


# A channel's number, when its counter was read and what it said in joules, when its power was read and its watts; None
# was not asked for. A tuple: it is made while the sleeper is slow.
_Reading = Tuple[int, float, Optional[float], float, Optional[float]]


# A channel's number, what reads its watts and its joules, and whether its watts are the slope of the joules.
_Read = Tuple[int, Optional[Callable[[], float]], Optional[Callable[[], float]], bool]


class _Lane:
    """Channels that are read one after the other at one rhythm, in one thread."""

    def __init__(self, channels: Sequence[Channel], indices: Sequence[int], interval_s: float) -> None:
        self.keep(channels, indices)
        self.interval_s = interval_s
        self.looks: deque[list[_Reading]] = deque()  # not handed on yet
        self.handed_on_s = -math.inf
        self.lock = threading.Lock()
        self.reading: int | None = None  # which channel is being read
        self.since_s = 0.0  # since when
        self.hung = False
        self.probes = list(PROBES)

    def keep(self, channels: Sequence[Channel], indices: Sequence[int]) -> None:
        """Read these from now on."""
        self.indices = list(indices)
        self.reads: list[_Read] = []
        self.counters: list[_Read] = []
        for index in indices:
            _, read_power_w, read_energy_j, _ = channels[index]
            self.reads.append((index, read_power_w, read_energy_j, read_power_w is None))
            if read_energy_j is not None:
                self.counters.append((index, None, read_energy_j, False))


class Sampler:
    """Deadline loops, one for each rhythm.

    A load with a period of its own can keep step with samples at equal distances, which then see it always at the same
    phase. So each sample is taken at a random moment of its interval (stratified sampling), which makes what is missed
    in between independent errors.

    A read that comes late skips ticks and never bursts; a read that fails is `nan`, is counted, and is warned about
    once per channel. A channel with a period of its own has its own loop, and a channel that does not answer is left
    behind in one, so that it holds up no other. `chance()` gives a number from 0 to 1: where in its interval a sample
    is taken.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        sinks: Sequence[Sink],
        interval_s: float = DEFAULT_INTERVAL_S,
        clock: Clock | None = None,
        warn: Callable[[str], None] = _warn,
        chance: Callable[[], float] = lambda: 0.0,
    ) -> None:
        if not interval_s > 0 or math.isinf(interval_s):
            raise JpwrError(f"the sampling interval must be above 0 s, got {interval_s}")
        self.channels = list(channels)
        self.sinks = list(sinks)
        self.interval_s = interval_s
        self.clock = clock or SystemClock()
        self.skipped_ticks = 0
        self.failed_reads: dict[str, int] = {channel.info.name: 0 for channel in self.channels}
        self._warn = warn
        self._chance = chance
        self.counters_j = [math.nan] * len(self.channels)  # as last read; nan where there is none
        self._slopes = [
            None if channel.read_power_w else Slope(max(interval_s, channel.info.period_s)) for channel in self.channels
        ]
        self._emitting = threading.Lock()
        rhythms: dict[float, list[int]] = {interval_s: []}
        for index, channel in enumerate(self.channels):
            rhythms.setdefault(max(interval_s, channel.info.period_s), []).append(index)
        self._lanes = [_Lane(self.channels, indices, period_s) for period_s, indices in rhythms.items()]
        self._threads: list[threading.Thread] = []
        self._error: BaseException | None = None

    @property
    def hung(self) -> list[str]:
        """Names of the channels that did not answer and were left behind."""
        return [self.channels[index].info.name for lane in self._lanes if lane.hung for index in lane.indices]

    def run(self, stopped: Callable[[], bool]) -> None:
        """Sample now, then at every deadline, and once more when stopped, so that the trace covers the whole run."""
        for lane in self._lanes[1:]:
            self._start(partial(self._loop, lane, stopped))
        if any(channel.read_status for channel in self.channels):
            self._start(partial(self._watch_status, stopped))
        try:
            self._loop(self._lanes[0], stopped)
        finally:
            self.finish()
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        """Wait for the last readings of all rhythms, where channels hang only so long, and hand them on."""
        end_s = time.monotonic() + JOIN_S
        while self._threads:  # who hangs is waited for once
            self._threads.pop().join(max(0.0, end_s - time.monotonic()))
        self.hand_on()

    def watch(self, stopped: Callable[[], bool]) -> None:
        """Look after channels that do not answer; for a thread of its own."""
        while not stopped():
            self.look_after(stopped)
            self.clock.sleep_until(self.clock.now_s() + WATCH_INTERVAL_S)

    def look_after(self, stopped: Callable[[], bool]) -> None:
        """Leave behind, now, the channels that do not answer."""
        now_s = self.clock.now_s()
        for lane in list(self._lanes):
            limit_s = max(HUNG_S, 2 * lane.interval_s)
            if lane.reading is not None and not lane.hung and now_s - lane.since_s > limit_s:
                self._leave_behind(lane, stopped)

    def sample(self, wait_s: float = 1.0) -> None:
        """Read every channel that has no slower rhythm of its own once, now; not one that does not answer.

        What is being read at the moment is waited for, for so long.
        """
        for lane in self._at_hand():
            self._read_once(lane, wait_s)
        self.hand_on()

    def sample_counters(self, wait_s: float = 0.1) -> None:
        """The same for counters alone: at a moment that the load has chosen, power is no fair sample."""
        for lane in self._at_hand():
            self._read_once(lane, wait_s, counters_only=True)
        self.hand_on()

    def _at_hand(self) -> list[_Lane]:
        """Those that anybody may read at any time."""
        return [lane for lane in self._lanes if lane.interval_s == self.interval_s and not lane.hung]

    def event(self, name: str, time_s: float, **details: Any) -> None:
        """Hand an event to all sinks, after what was read before it."""
        with self._emitting:
            self._hand_on_looks()
            for sink in self.sinks:
                sink.event(name, time_s, **details)

    def hand_on(self) -> None:
        """Hand what was read until now to all sinks."""
        with self._emitting:
            self._hand_on_looks()

    def _hand_on_looks(self) -> None:
        rows: list[Row] = []
        for lane in list(self._lanes):
            while lane.looks:
                rows += self._rows(lane.looks.popleft())
        if not rows:
            return
        if len(self._lanes) > 1:
            rows.sort(key=itemgetter(0))
        for sink in self.sinks:
            sink.extend(rows)

    def _rows(self, look: Sequence[_Reading]) -> list[Row]:
        """What was read at one moment is a row."""
        nothing: list[float | None] = [None] * len(self.channels)
        rows: list[Row] = []
        row_s, watts, joules = -math.inf, nothing, nothing
        for index, counter_s, counter_j, power_s, power_w in look:
            if counter_j is not None:
                if counter_s - row_s > SAME_MOMENT_S:
                    row_s, watts, joules = counter_s, nothing[:], nothing[:]
                    rows.append(Row(row_s, watts, joules))
                joules[index] = counter_j
            if power_w is not None:
                if power_s - row_s > SAME_MOMENT_S:
                    row_s, watts, joules = power_s, nothing[:], nothing[:]
                    rows.append(Row(row_s, watts, joules))
                watts[index] = power_w
        return rows

    def _start(self, loop: Callable[[], None]) -> None:
        def run() -> None:
            try:
                loop()
            except BaseException as error:  # handed to the thread that waits in run()
                self._error = error

        thread = threading.Thread(target=run, name="jpwr-lane", daemon=True)
        threads.start(thread)
        self._threads.append(thread)

    def _loop(self, lane: _Lane, stopped: Callable[[], bool]) -> None:
        start_s = self.clock.now_s()
        tick = 0
        while not stopped():
            begun_s = self.clock.now_s()
            if lane.indices:
                with lane.lock:
                    self._read_lane(lane, lane.reads)
                if lane.probes and lane.counters:
                    self.clock.sleep_until(self.clock.now_s() + lane.probes.pop() * lane.interval_s)
                    with lane.lock:
                        self._read_lane(lane, lane.counters)
                if begun_s - lane.handed_on_s >= HAND_ON_S:
                    lane.handed_on_s = begun_s
                    self.hand_on()
            # A deadline depends on its tick alone: what one tick takes does not move the next.
            tick += 1
            deadline_s = self._deadline_s(start_s, tick, lane)
            now_s = self.clock.now_s()
            if now_s > deadline_s and (
                now_s - begun_s > lane.interval_s or now_s > start_s + (tick + 1) * lane.interval_s
            ):
                skipped = math.ceil((now_s - deadline_s) / lane.interval_s - 1e-9)
                self.skipped_ticks += skipped
                tick += skipped
                deadline_s = self._deadline_s(start_s, tick, lane)
            # Else two random moments are closer together than a reading takes: the second one is now.
            self.clock.sleep_until(deadline_s)
        if lane.indices and not lane.hung:
            with lane.lock:
                self._read_lane(lane, lane.reads)

    def _deadline_s(self, start_s: float, tick: int, lane: _Lane) -> float:
        return start_s + (tick + self._chance()) * lane.interval_s

    def _leave_behind(self, lane: _Lane, stopped: Callable[[], bool]) -> None:
        hung = lane.reading
        if hung is None:
            return
        others = [index for index in lane.indices if index != hung]
        name = self.channels[hung].info.name
        self._warn(f"{name}: does not answer; it is left behind, and the other channels go on")
        self.failed_reads[name] += 1
        lane.hung = True  # first: it may answer at any moment, and must not go on to the others
        lane.keep(self.channels, [hung])
        if others:
            heir = _Lane(self.channels, others, lane.interval_s)
            self._lanes.append(heir)
            self._start(partial(self._loop, heir, stopped))

    def _read_once(self, lane: _Lane, wait_s: float, counters_only: bool = False) -> None:
        if not lane.lock.acquire(timeout=wait_s):
            return
        try:  # what the lane reads may have changed meanwhile
            self._read_lane(lane, lane.counters if counters_only else lane.reads)
        finally:
            lane.lock.release()

    def _read_lane(self, lane: _Lane, reads: Sequence[_Read]) -> None:
        now_s = self.clock.now_s
        look: list[_Reading] = []
        after_s = now_s()
        for index, read_power_w, read_energy_j, by_slope in reads:
            lane.since_s = before_s = after_s
            lane.reading = index
            counter_j = power_w = None
            if read_energy_j is not None:
                try:
                    counter_j = read_energy_j()
                except ReadError as error:
                    counter_j = self._failed(index, error)
                after_s = now_s()
                self.counters_j[index] = counter_j
            counter_s = power_s = (before_s + after_s) / 2
            if read_power_w is not None:
                before_s = after_s
                try:
                    power_w = read_power_w()
                except ReadError as error:
                    power_w = self._failed(index, error)
                after_s = now_s()
                power_s = (before_s + after_s) / 2
            was_hung = lane.hung
            if was_hung:  # others have gone on meanwhile: this reading is of now, and what came before it is old
                lane.hung, counter_s, power_s, look = False, after_s, after_s, []
                self._warn(f"{self.channels[index].info.name}: answers again")
            slope = self._slopes[index]
            if slope is not None and counter_j is not None:  # also readings of the counter alone tell its pace
                slope_w = slope.watts_at(counter_s, counter_j)
                power_w = slope_w if by_slope else None
            look.append((index, counter_s, counter_j, power_s, power_w))
            if was_hung:
                break
        lane.reading = None
        lane.looks.append(look)

    def _failed(self, index: int, error: ReadError) -> float:
        info = self.channels[index].info
        if not self.failed_reads[info.name] and not info.lacks.startswith("cannot be read"):
            self._warn(f"{info.name}: {error}; readings that fail are recorded as missing")
        self.failed_reads[info.name] += 1
        return math.nan

    def _watch_status(self, stopped: Callable[[], bool]) -> None:
        """Record what explains the readings, whenever it has changed."""
        last: dict[str, dict[str, Any]] = {}
        while not stopped():
            now_s = self.clock.now_s()
            for channel in self.channels:
                if channel.read_status is None or channel.info.name in self.hung:
                    continue
                try:
                    status = channel.read_status()
                except ReadError:
                    continue  # its readings tell that it fails
                if status != last.get(channel.info.name):
                    last[channel.info.name] = status
                    self.event("status", now_s, channel=channel.info.name, **status)
            self.clock.sleep_until(now_s + STATUS_INTERVAL_S)


class PowerMonitor:
    """Sample in a thread for as long as the `with` block lasts; `trace` is what was seen until it is asked for.

    >>> with ExitStack() as stack:
    ...     with PowerMonitor(open_methods(["pynvml"], stack).channels) as monitor:
    ...         work()
    ...     monitor.trace.energies(start_s, end_s)
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        interval_s: float = DEFAULT_INTERVAL_S,
        sinks: Sequence[Sink] | None = None,
        clock: Clock | None = None,
        warn: Callable[[str], None] = _warn,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        infos = [channel.sampled_info(interval_s) for channel in channels]
        self._trace = Trace(infos, {"random_phase": True, "interval_s": interval_s})
        self.sampler = Sampler(
            channels, [self._trace] if sinks is None else sinks, interval_s, self.clock, warn, chance or any_moment
        )
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._threads = [threading.Thread(target=run, name="jpwr", daemon=True) for run in (self._run, self._watch)]

    @property
    def trace(self) -> Trace:
        """Within the block whoever keeps it sees what comes later up to a second late."""
        self.sampler.hand_on()
        return self._trace

    def _run(self) -> None:
        try:
            self.sampler.run(self._stop.is_set)
        except BaseException as error:  # handed to the thread that stops the monitor
            self._error = error

    def _watch(self) -> None:
        self.sampler.watch(self._stop.is_set)

    def mark(self, event: str, name: str, time_s: float | None = None) -> None:
        """Note a region_begin or region_end, and read the counters now, so that the region's edge is sharp."""
        time_s = self.clock.now_s() if time_s is None else time_s
        self.sampler.sample_counters()
        self.sampler.event(event, time_s, region=name)

    def __enter__(self) -> PowerMonitor:
        self.process_id = os.getpid()
        _active.append(self)
        threads.start(*self._threads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        _active.remove(self)
        self._stop.set()
        self.clock.wake()
        for thread in self._threads:
            while thread.is_alive() and not self.sampler.hung:
                thread.join(WATCH_INTERVAL_S)
                self.sampler.look_after(self._stop.is_set)
            thread.join(JOIN_S)
        self.sampler.finish()
        if self._error is not None and error is None:
            raise self._error


_active: list[PowerMonitor] = []


def active_monitors() -> list[PowerMonitor]:
    """The monitors whose block this process is in; those of a process that it was forked from have no thread here."""
    return [monitor for monitor in _active if monitor.process_id == os.getpid()]


_drawn: list[int] = []


def any_moment() -> float:
    """A number from 0 to 1 by chance, without the 5 ms that the module random takes to load."""
    try:
        return _drawn.pop() / 2**32
    except IndexError:
        _drawn.extend(array("I", os.urandom(1024)))
        return any_moment()
