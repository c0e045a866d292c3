"""Time steps, those of the warm-up and those of the measured window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class StepTimer:
    """Times of warm-up steps and of the steps of the measured window, in seconds of the clock `now_s`.

    `synchronize` waits until the device is idle. Without device events it is called after each step, or after
    `steps_together` steps, so that their time is that of all their work. With `record_event` the device times its own
    steps, and nothing waits for it inside the window. The device is idle at both ends of the window.
    """

    now_s: Callable[[], float]
    synchronize: Callable[[], None]
    record_event: Callable[[], Any] | None = None  # of events with `elapsed_s`
    warmup_step_times_s: list[float] = field(default_factory=list)
    steps_together: int = 1  # in the window, without device events
    window_times_s: list[float] = field(default_factory=list)  # start of the window, and the end of each timed part
    events: list[Any] = field(default_factory=list)  # at the same moments
    _last_s: float = 0.0
    _since_mark: int = 0  # steps

    def start(self) -> None:
        """Start the timer, before the first warm-up step."""
        self.synchronize()
        self._last_s = self.now_s()

    def begin_window(self, steps_together: int = 1) -> None:
        """Begin the window, before the first measured step; the number of steps is a multiple of `steps_together`."""
        self.steps_together = steps_together
        self.synchronize()
        self._mark()

    def step_done(self) -> None:
        """Note the end of a step, of the warm-up or of the window."""
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
        """Whether the last step ended a timed part."""
        return not self._since_mark

    def finish(self) -> None:
        """End the window, after the last step, when the device is idle."""
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
        """Start of the window, in seconds of the clock."""
        return self.window_times_s[0]

    @property
    def window_end_s(self) -> float:
        """End of the window, in seconds of the clock."""
        return self.window_times_s[-1]

    @property
    def window_s(self) -> float:
        """Duration of the window, in seconds."""
        return self.window_end_s - self.window_start_s

    @property
    def measured_step_times_s(self) -> list[float]:
        """Times of steps, in seconds: by the device's events, else the host's means over `steps_together` steps."""
        if self.events:
            return [after.elapsed_s(before) for before, after in pairwise(self.events)]
        return [time_s / self.steps_together for time_s in self.host_times_s]

    @property
    def host_times_s(self) -> list[float]:
        """Times of the parts of the window on the host, in seconds; with device events the host may run ahead."""
        return [after - before for before, after in pairwise(self.window_times_s)]
