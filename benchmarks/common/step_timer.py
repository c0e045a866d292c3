"""Time steps: warm-up apart from what is measured."""

from __future__ import annotations

from collections.abc import Callable
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
    """Times of every step, in seconds of the clock it is given.

    `synchronize` waits until the device has finished. Without device events it is called at the end of each step, so
    that a step's time is all of its work and nothing else. With `record_event` the device itself tells its steps
    apart: within the measured window nothing waits for it, and the host's times are known beside. The window goes
    from the end of the last warm-up step to the end of the last measured step, the device at rest at both.
    """

    warmup_steps: int
    now_s: Callable[[], float]
    synchronize: Callable[[], None]
    record_event: Callable[[], Event] | None = None
    step_ends_s: list[float] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # the window's beginning, and the end of each measured step
    started_s: float = 0.0

    def start(self) -> None:
        self.synchronize()
        self.started_s = self.now_s()
        self._mark()

    def step_done(self) -> None:
        if self.record_event is None or len(self.step_ends_s) < self.warmup_steps:
            self.synchronize()
        self.step_ends_s.append(self.now_s())
        self._mark()

    def finish(self) -> None:
        """After the last step: the window ends when the device has done all."""
        if self.record_event is not None and len(self.step_ends_s) > self.warmup_steps:
            self.synchronize()
            self.step_ends_s[-1] = self.now_s()

    def _mark(self) -> None:
        if self.record_event is not None and len(self.step_ends_s) >= self.warmup_steps:
            self.events.append(self.record_event())

    @property
    def last_step_time_s(self) -> float:
        return self.step_ends_s[-1] - (self.step_ends_s[-2] if len(self.step_ends_s) > 1 else self.started_s)

    @property
    def window_start_s(self) -> float:
        return self.step_ends_s[self.warmup_steps - 1] if self.warmup_steps else self.started_s

    @property
    def window_end_s(self) -> float:
        return self.step_ends_s[-1]

    @property
    def window_s(self) -> float:
        return self.window_end_s - self.window_start_s

    @property
    def measured_step_times_s(self) -> list[float]:
        """The device's own where it tells them, else the host's."""
        if self.events:
            return [after.elapsed_s(before) for before, after in pairwise(self.events)]
        return self.host_step_times_s

    @property
    def host_step_times_s(self) -> list[float]:
        """What the host saw of the measured steps; with device events it may be ahead of the device."""
        ends_s = [self.window_start_s, *self.step_ends_s[self.warmup_steps :]]
        return [after - before for before, after in pairwise(ends_s)]


def percentile(values: list[float], percent: float) -> float:
    """The value below which `percent` of the values lie, interpolated between neighbours as numpy does by default."""
    if not values:
        raise ConfigError("a percentile needs at least one value")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
