"""Time steps: warm-up apart from what is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.common.options import ConfigError


@dataclass
class StepTimer:
    """Times of every step, in seconds of the clock it is given.

    `synchronize` waits until the device has finished; it is called at the end of each step, so that a step's time
    is all of its work and nothing else. The measured window goes from the end of the last warm-up step to the end
    of the last measured step.
    """

    warmup_steps: int
    now_s: Callable[[], float]
    synchronize: Callable[[], None]
    step_ends_s: list[float] = field(default_factory=list)
    started_s: float = 0.0

    def start(self) -> None:
        self.synchronize()
        self.started_s = self.now_s()

    def step_done(self) -> None:
        self.synchronize()
        self.step_ends_s.append(self.now_s())

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
    def measured_step_times_s(self) -> list[float]:
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
