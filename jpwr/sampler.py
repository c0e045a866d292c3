"""Read every channel at absolute deadlines until told to stop."""

from __future__ import annotations

import math
import sys
import threading
from types import TracebackType
from typing import Callable, Protocol, Sequence

from jpwr.channel import Channel
from jpwr.clock import Clock, SystemClock
from jpwr.errors import JpwrError, ReadError
from jpwr.trace import Trace

# NVML averages over a window of its own, so sampling much faster than it refreshes
# adds rows and no information (Yang et al. 2023, arXiv:2312.02741).
DEFAULT_INTERVAL_S = 0.1


class Sink(Protocol):
    """Where rows go: a Trace, a file, a running sum."""

    def append(self, time_s: float, power_w: Sequence[float], energy_j: Sequence[float]) -> None: ...


class Sampler:
    """The deadline loop.

    A read that comes late skips ticks and never bursts; a read that fails is `nan`, is counted, and is warned
    about once per channel.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        sinks: Sequence[Sink],
        interval_s: float = DEFAULT_INTERVAL_S,
        clock: Clock | None = None,
        warn: Callable[[str], None] = lambda message: print(f"jpwr: {message}", file=sys.stderr),
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
        self._last_counter = [(math.nan, math.nan)] * len(self.channels)

    def run(self, stopped: Callable[[], bool]) -> None:
        """Sample now, then at every deadline, and once more when stopped, so that the trace covers the whole run."""
        start_s = self.clock.now_s()
        tick = 0
        while not stopped():
            self.sample()
            # Deadlines are multiples of the interval: what one tick takes does not move the next.
            due = max(tick + 1, math.ceil((self.clock.now_s() - start_s) / self.interval_s - 1e-9))
            self.skipped_ticks += due - tick - 1
            tick = due
            self.clock.sleep_until(start_s + tick * self.interval_s)
        self.sample()

    def sample(self) -> None:
        """Read every channel once and hand the row to the sinks."""
        time_s = self.clock.now_s()
        energy_j: list[float] = []
        power_w: list[float] = []
        for index, channel in enumerate(self.channels):
            counter_j = self._read(channel, channel.read_energy_j) if channel.read_energy_j else math.nan
            if channel.read_power_w:
                power_w.append(self._read(channel, channel.read_power_w))
            else:
                power_w.append(self._slope_w(index, time_s, counter_j))
            energy_j.append(counter_j)
        for sink in self.sinks:
            sink.append(time_s, power_w, energy_j)

    def _read(self, channel: Channel, read: Callable[[], float]) -> float:
        name = channel.info.name
        try:
            return read()
        except ReadError as error:
            if not self.failed_reads[name]:
                self._warn(f"{name}: {error}; readings that fail are recorded as missing")
            self.failed_reads[name] += 1
            return math.nan

    def _slope_w(self, index: int, time_s: float, counter_j: float) -> float:
        last_time_s, last_counter_j = self._last_counter[index]
        if not math.isnan(counter_j):
            self._last_counter[index] = (time_s, counter_j)
        step_s = time_s - last_time_s
        return (counter_j - last_counter_j) / step_s if step_s > 0 else math.nan


class PowerMonitor:
    """Sample in a thread for as long as the `with` block lasts; `trace` is what was seen.

    >>> with ExitStack() as stack:
    ...     with PowerMonitor(open_methods(["pynvml"], stack).channels) as monitor:
    ...         work()
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        interval_s: float = DEFAULT_INTERVAL_S,
        sinks: Sequence[Sink] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.trace = Trace([channel.info for channel in channels])
        self.sampler = Sampler(channels, [self.trace] if sinks is None else sinks, interval_s, self.clock)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="jpwr", daemon=True)

    def _run(self) -> None:
        try:
            self.sampler.run(self._stop.is_set)
        except BaseException as error:  # handed to the thread that stops the monitor
            self._error = error

    def __enter__(self) -> PowerMonitor:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stop.set()
        self.clock.wake()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error
