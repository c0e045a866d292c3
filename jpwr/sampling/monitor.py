"""Sample all channels in the background for as long as a block lasts."""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Callable, Sequence

from jpwr.channel import Channel
from jpwr.errors import JpwrError
from jpwr.process import threads
from jpwr.process.clock import Clock, SystemClock
from jpwr.sampling.lane import HUNG_S, Lane, lanes_of
from jpwr.sampling.recorder import Recorder, Sink
from jpwr.sampling.round import Part
from jpwr.sampling.status import StatusWatch
from jpwr.sampling.watchdog import hung_channels, leave_behind
from jpwr.say import say
from jpwr.trace.trace import Trace, storing

# NVML averages over a window of its own, so sampling much faster than it refreshes
# adds rows and no information (Yang et al. 2023, arXiv:2312.02741).
DEFAULT_INTERVAL_S = 0.1
MIN_INTERVAL_S = 0.001  # no sensor has a new value more often, and no machine keeps that up beside a program
WATCH_INTERVAL_S = 2.0  # a wake-up takes as much CPU time as five readings
JOIN_S = 2.0
MARK_S = 1.0

# A process is forked while no rows are put away: it finds whole columns, and nobody there holds the lock.
os.register_at_fork(before=storing.acquire, after_in_parent=storing.release, after_in_child=storing.release)


def any_moment() -> float:
    """Return a random number from 0 to 1, without the 5 ms that the module random takes to load."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


class PowerMonitor:
    """Sample for as long as the `with` block lasts; `trace` is what was seen until it is asked for.

    A channel with a period of its own is read in a lane of its own, slow counters in one beside power, and a channel
    that does not answer is left behind in one, so that it holds up no other. The block begins when all channels have
    been read once, or MARK_S later where one does not answer. `chance()` gives a number from 0 to 1: where in its
    interval a sample is taken.

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
        warn: Callable[[str], None] = say,
        chance: Callable[[], float] = any_moment,
    ) -> None:
        if not MIN_INTERVAL_S <= interval_s < math.inf:
            raise JpwrError(f"the sampling interval must be {MIN_INTERVAL_S:g} s or more, got {interval_s}")
        self.clock = clock or SystemClock()
        self.interval_s = interval_s
        infos = [channel.sampled_info(interval_s) for channel in channels]
        self._trace = Trace(infos, {"random_phase": True, "interval_s": interval_s})
        self.recorder = Recorder(channels, [self._trace] if sinks is None else sinks, interval_s, self.clock, warn)
        self.event, self.hand_on = self.recorder.event, self.recorder.hand_on
        self.lanes = lanes_of(channels, self.recorder, chance, interval_s)
        self._status = StatusWatch(channels, self.lanes, self.recorder)
        self._stop = threading.Lock()  # held from when it is to stop on: it is asked at each sample
        self._threads: list[threading.Thread] = []
        self._process_id = os.getpid()
        self._error: BaseException | None = None

    @property
    def trace(self) -> Trace:
        """Trace of the readings so far; within the block, later readings reach it up to a second late.

        In a process that was forked in the meantime, it holds only the rows that had been handed on before.
        """
        if self.is_of_this_process:
            self.hand_on()
        return self._trace

    @property
    def is_of_this_process(self) -> bool:
        """Whether its threads are here, and not in a process from which this one was forked."""
        return self._process_id == os.getpid()

    @property
    def hung(self) -> list[str]:
        """Names of the channels that did not answer and were left behind."""
        return hung_channels(self.lanes)

    def sample(self, part: Part = Part.ALL, wait_s: float = 1.0) -> None:
        """Read every channel that has no slower rhythm of its own once, now; not one that does not answer.

        What is being read at the moment is waited for, for so long.
        """
        for lane in list(self.lanes):
            if lane.period_s == self.interval_s and not lane.hung and lane.steps[part]:
                lane.read(self.clock.now_s(), part, wait_s=wait_s)
        self.hand_on()

    def sample_counters(self, quick: bool = False) -> None:
        """Read counters alone, or quick ones: at a moment that the load has chosen, power is no fair sample."""
        self.sample(Part.QUICK_COUNTERS if quick else Part.COUNTERS, wait_s=0.1)

    def mark(self, event: str, name: str) -> None:
        """Note a region_begin or region_end.

        The quick counters are read outside of the region and beside it, so that its edge is sharp. A counter that does
        not answer keeps the program for at most MARK_S.
        """
        if event == "region_begin":
            self._read_quick_counters()
        self.event(event, self.clock.now_s(), region=name)
        if event == "region_end":
            self._read_quick_counters()

    def _read_quick_counters(self) -> None:
        with suppress(RuntimeError):  # no more threads: it is less sharp
            threads.within(MARK_S, partial(self.sample_counters, quick=True))

    def __enter__(self) -> PowerMonitor:
        self._process_id = os.getpid()
        _active.append(self)
        self.recorder.began_s = self.clock.now_s()
        lanes, end_s = list(self.lanes), time.monotonic() + MARK_S
        for lane in lanes:
            self._start_lane(lane)
        if self._status.names:
            self._start_status()
        self._start(self._watch)
        for lane in lanes:  # else what the program does first may be before the first reading
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
        for lane in self.lanes:  # those that go on for one that hangs are added to the list meanwhile
            while lane.thread and lane.thread.is_alive() and not lane.hung:
                lane.thread.join(HUNG_S)
                self.look_after()
        self.finish()
        if self._error is not None and error is None:
            raise self._error

    def finish(self) -> None:
        """Wait for the threads, where channels hang only so long, and hand on the last readings."""
        end_s = time.monotonic() + JOIN_S
        while self._threads:  # who hangs is waited for once
            self._threads.pop().join(max(0.0, end_s - time.monotonic()))
        for lane in self.lanes:
            lane.record_silence()
        self.hand_on()

    def look_after(self) -> None:
        """Leave behind, now, the channels that do not answer."""
        leave_behind(self.lanes, self._start_lane, self.recorder.warn)
        if self._status.leave_behind():
            self._start_status()

    def _watch(self) -> None:
        while not self._stop.locked():
            self.look_after()
            # Until all have been read, those that answer wait behind those that do not.
            have_begun = all(lane.begun.is_set() for lane in list(self.lanes))
            self.clock.sleep_until(self.clock.now_s() + (WATCH_INTERVAL_S if have_begun else HUNG_S))

    def _start_lane(self, lane: Lane) -> None:
        lane.thread = self._start(partial(lane.loop, self._stop.locked))

    def _start_status(self) -> None:
        self._start(partial(self._status.loop, self._stop.locked))

    def _start(self, loop: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                loop()
            except BaseException as error:  # handed to the thread that waits
                self._error = error
                for lane in self.lanes:
                    lane.begun.set()

        thread = threading.Thread(target=run, name="jpwr", daemon=True)
        self._threads.append(thread)
        threads.start(thread)
        return thread


_active: list[PowerMonitor] = []


def active_monitors() -> list[PowerMonitor]:
    """Return the monitors whose block this process is in; those of a process it was forked from have no thread here."""
    return [monitor for monitor in _active if monitor.is_of_this_process]
