"""Sample all channels in the background for as long as a block lasts."""

from __future__ import annotations

import math
import os
import threading
import time
from array import array
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Callable, Sequence

from jpwr.channel import Channel
from jpwr.errors import JpwrError
from jpwr.messages import log
from jpwr.process import threads
from jpwr.process.clock import Clock
from jpwr.sampling.lane import HUNG_S, Lane, hung_channels, lanes_of
from jpwr.sampling.recorder import Part, Recorder, Sink
from jpwr.sampling.status import StatusWatch
from jpwr.trace.trace import Trace

# NVML averages over a window of its own, so sampling much faster than it refreshes
# adds rows and no information (Yang et al. 2023, arXiv:2312.02741).
DEFAULT_INTERVAL_S = 0.1
MIN_INTERVAL_S = 0.001  # no sensor refreshes faster
WATCH_INTERVAL_S = 2.0  # between two checks for hung channels; a wake-up takes as much CPU time as five readings
JOIN_S = 2.0  # wait for threads at the end; those of hung channels are left running
MARK_S = 1.0  # longest time for which a hung counter delays a mark


_random: list[int] = []  # numbers of 32 bits


def any_moment() -> float:
    """Return a random number from 0 to 1, without the 5 ms that the module random takes to load."""
    try:
        return _random.pop() / 2**32
    except IndexError:
        _random.extend(array("I", os.urandom(1024)))  # a system call per number would take as long as two readings
        return any_moment()


class PowerMonitor:
    """Sampler of power while its `with` block lasts; `trace` holds the readings so far, all of them in memory.

    `interval_s` is in seconds. Channels with a longer period, slow counters and channels that do not answer are read in
    threads of their own, so that they delay no other. The block begins when all channels have been read once, or MARK_S
    later if one does not answer. `chance()` returns a number from 0 to 1: the moment of a sample within its interval.
    Raises JpwrError for an interval below MIN_INTERVAL_S.

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
        warn: Callable[[str], None] = log,
        chance: Callable[[], float] = any_moment,
    ) -> None:
        if not MIN_INTERVAL_S <= interval_s < math.inf:
            raise JpwrError(f"the sampling interval must be {MIN_INTERVAL_S:g} s or more, got {interval_s}")
        self.clock = clock or Clock()
        self.interval_s = interval_s
        infos = [channel.sampled_info(interval_s) for channel in channels]
        self._trace = Trace(infos, {"random_phase": True, "interval_s": interval_s})
        self.recorder = Recorder(channels, [self._trace] if sinks is None else sinks, interval_s, self.clock, warn)
        self.event, self.flush = self.recorder.event, self.recorder.flush
        self.lanes = lanes_of(channels, self.recorder, chance, interval_s)
        self._status = StatusWatch(channels, self.lanes, self.recorder)
        self._stop = threading.Lock()  # locked when the threads have to stop: cheaper to check than an Event
        self._threads: list[threading.Thread] = []
        self._process_id = os.getpid()
        self._error: BaseException | None = None

    @property
    def trace(self) -> Trace:
        """Trace of the readings so far; within the block, later readings reach it up to a second late.

        In a process that was forked in the meantime, it holds only the rows that had been flushed before.
        """
        if self.is_of_this_process:
            self.flush()
        return self._trace

    @property
    def is_of_this_process(self) -> bool:
        """Whether its threads run in this process, not in one from which this process was forked."""
        return self._process_id == os.getpid()

    @property
    def hung(self) -> list[str]:
        """Names of the channels that do not answer."""
        return hung_channels(self.lanes)

    def sample(self, part: Part = Part.ALL, wait_s: float = 1.0) -> None:
        """Read every channel without a longer period once, now, except those that do not answer.

        Wait for a round in progress for at most `wait_s` seconds.
        """
        for lane in list(self.lanes):
            if lane.period_s == self.interval_s and not lane.hung and lane.steps[part]:
                lane.read(self.clock.now_s(), part, wait_s=wait_s)
        self.flush()

    def sample_counters(self, quick: bool = False) -> None:
        """Read counters only, or only quick ones: at a moment that depends on the load, power is a biased sample."""
        self.sample(Part.QUICK_COUNTERS if quick else Part.COUNTERS, wait_s=0.1)

    def mark(self, event: str, name: str) -> None:
        """Record a region_begin or region_end with the region's name.

        Quick counters are read just outside of the region, for an accurate edge. A counter that does not answer delays
        the program by at most MARK_S.
        """
        if event == "region_begin":
            self._read_quick_counters()
        self.event(event, self.clock.now_s(), region=name)
        if event == "region_end":
            self._read_quick_counters()

    def _read_quick_counters(self) -> None:
        with suppress(RuntimeError):  # no more threads can be started: the edge is less accurate
            threads.within(MARK_S, partial(self.sample_counters, quick=True))

    def __enter__(self) -> PowerMonitor:
        self._process_id = os.getpid()
        _active.append(self)
        lanes, end_s = list(self.lanes), time.monotonic() + MARK_S
        for lane in lanes:
            self._start_lane(lane)
        if self._status.names:
            self._start(partial(self._status.loop, self._stop.locked))
        self._start(self._watch)
        for lane in lanes:  # the first reading precedes the program's work
            lane.begun.wait(max(0.0, end_s - time.monotonic()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        _active.remove(self)
        if not self.is_of_this_process:
            return
        self._stop.acquire(blocking=False)
        self.clock.wake()
        for lane in list(self.lanes):
            if lane.thread and not lane.hung:
                self._threads.remove(lane.thread)  # it may be asleep, and then ends later
                lane.thread = self._start(lane.end)
        for lane in self.lanes:  # the check for hung channels may add lanes to the list
            while lane.thread and lane.thread.is_alive() and not lane.hung:
                lane.thread.join(HUNG_S)
                self.check_hung()
        self.finish()
        if self._error is not None and error is None:
            raise self._error

    def finish(self) -> None:
        """Wait for the threads, for at most JOIN_S if channels hang, and flush the last readings."""
        end_s = time.monotonic() + JOIN_S
        while self._threads:  # wait for each thread once
            self._threads.pop().join(max(0.0, end_s - time.monotonic()))
        for lane in self.lanes:
            lane.record_missing()
        self._status.report_silence(HUNG_S)
        self.flush()

    def check_hung(self) -> None:
        """Isolate the channels that do not answer, and read the others in new threads."""
        for lane in list(self.lanes):
            lane.record_missing()
            known = self.hung
            others = lane.isolate_hung()
            if others is None:
                continue
            for other in others:
                self.lanes.append(other)
                self._start_lane(other)
            [name] = lane.names
            if name not in known:
                what = "its counter does not answer" if lane.counters_only else "does not answer"
                self.recorder.warn(f"{name}: {what}; sampling continues without it")

    def _watch(self) -> None:
        while not self._stop.locked():
            self.check_hung()
            self._status.report_silence()
            # Until all channels have been read, the others wait for one that does not answer.
            have_begun = all(lane.begun.is_set() for lane in list(self.lanes))
            self.clock.sleep_until(self.clock.now_s() + (WATCH_INTERVAL_S if have_begun else HUNG_S))

    def _start_lane(self, lane: Lane) -> None:
        lane.thread = self._start(partial(lane.loop, self._stop.locked))

    def _start(self, loop: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                loop()
            except BaseException as error:  # raised by __exit__
                self._error = error
                for lane in self.lanes:
                    lane.begun.set()

        thread = threading.Thread(target=run, name="jpwr", daemon=True)
        self._threads.append(thread)
        threads.start(thread)
        return thread


_active: list[PowerMonitor] = []


def active_monitors() -> list[PowerMonitor]:
    """Return the monitors whose block this process is in, without those of a process from which it was forked."""
    return [monitor for monitor in _active if monitor.is_of_this_process]
