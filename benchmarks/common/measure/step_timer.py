"""Time steps: warm-up apart from what is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from benchmarks.common.options import ConfigError


class Event(Protocol):
    """A moment on the device, after all that it was given before."""

    def elapsed_s(self, since: Any) -> float:
        """Seconds of the device since an earlier event of the same kind; both must have passed."""
        ...


@dataclass
class StepTimer:
    """Times of warm-up steps and of the steps of the measured window, in seconds of the clock it is given.

    `synchronize` waits until the device has finished. Without device events it is called at the end of each step, or
    of so many together, so that their time is all of their work and nothing else. With `record_event` the device itself
    tells its steps apart: within the window nothing waits for it, and the host's times are known beside. The device is
    at rest at both ends of the window.
    """

    now_s: Callable[[], float]
    synchronize: Callable[[], None]
    record_event: Callable[[], Event] | None = None
    warmup_step_times_s: list[float] = field(default_factory=list)
    steps_together: int = 1  # in the window, without device events
    window_times_s: list[float] = field(default_factory=list)  # its beginning, and the end of each such part of it
    events: list[Event] = field(default_factory=list)  # the same moments on the device
    _last_s: float = 0.0
    _since_mark: int = 0  # steps

    def start(self) -> None:
        """Before the first warm-up step."""
        self.synchronize()
        self._last_s = self.now_s()

    def begin_window(self, steps_together: int = 1) -> None:
        """Before the first measured step; their number is a multiple of those that are waited for together."""
        self.steps_together = steps_together
        self.synchronize()
        self._mark()

    def step_done(self) -> None:
        """After each step, of the warm-up or of the window."""
        if self.window_times_s:
            self._since_mark += 1
            if self.record_event is not None:
                self._mark()
            elif self._since_mark == self.steps_together:
                self.synchronize()
                self._mark()
        else:
            self.synchronize()
            begun_s, self._last_s = self._last_s, self.now_s()
            self.warmup_step_times_s.append(self._last_s - begun_s)

    @property
    def at_mark(self) -> bool:
        """Has what was stepped until now an end of its own?"""
        return not self._since_mark

    def finish(self) -> None:
        """After the last step: the window ends when the device has done all."""
        if self.record_event is not None:
            self.synchronize()
            self.window_times_s[-1] = self.now_s()

    def _mark(self) -> None:
        self._since_mark = 0
        self.window_times_s.append(self.now_s())
        if self.record_event is not None:
            self.events.append(self.record_event())

    @property
    def window_start_s(self) -> float:
        return self.window_times_s[0]

    @property
    def window_end_s(self) -> float:
        return self.window_times_s[-1]

    @property
    def window_s(self) -> float:
        return self.window_end_s - self.window_start_s

    @property
    def measured_step_times_s(self) -> list[float]:
        """The device's own where it tells them, else the host's: means of those that were waited for together."""
        if self.events:
            return [after.elapsed_s(before) for before, after in pairwise(self.events)]
        return [time_s / self.steps_together for time_s in self.host_times_s]

    @property
    def host_times_s(self) -> list[float]:
        """How long each part of the window took by the host; with device events it may be ahead of the device."""
        return [after - before for before, after in pairwise(self.window_times_s)]


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the values lie, interpolated between neighbours as numpy does by default."""
    if not values:
        raise ConfigError("a percentile needs at least one value")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
