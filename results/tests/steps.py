"""Made-up steps whose states have known powers, as a sensor sees them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from jpwr.regions.times import State

PAUSE, OTHER = "Pause", "Other"
# Of a step the share, and watts.
USUAL: Mapping[str, tuple[float, float]] = {
    "IO": (0.05, 130.0),
    "Forward": (0.30, 420.0),
    "Backward": (0.45, 560.0),
    "Comm": (0.15, 250.0),
    "Update": (0.05, 330.0),
}
AROUND_S = 3.0
SLICE_S = 0.002


class Made(NamedTuple):
    """The states of a block of steps, and power in watts from each moment on, somewhat before and after it, too."""

    states: list[State]
    levels: list[tuple[float, float]]

    @property
    def start_s(self) -> float:
        return self.states[0].start_s

    @property
    def end_s(self) -> float:
        return self.states[-1].end_s

    def time_s(self, name: str) -> float:
        """In a state, altogether."""
        return math.fsum(state.end_s - state.start_s for state in self.states if state.name == name)


def made_steps(
    chance: random.Random,
    start_s: float,
    length_s: float = 60.0,
    step_s: float = 0.22,
    longest_pause: float = 0.5,
    uneven: float = 0.02,
    unlike: float = 0.0,
    smoothed_s: float = 0.0,
    powers: Mapping[str, tuple[float, float]] = USUAL,
) -> Made:
    """Steps with pauses of up to a share of a step.

    `uneven` is the standard deviation of times, `unlike` that of a state's power from one step to the next, both
    relative; `smoothed_s` the time constant with which power follows.
    """
    states: list[State] = []
    watts: list[float] = []
    now_s = start_s

    def add(name: str, for_s: float, level_w: float) -> None:
        nonlocal now_s
        states.append(State(name, now_s, now_s + for_s))
        watts.append(level_w * (1 + unlike * chance.gauss(0, 1)))
        now_s += for_s

    while now_s < start_s + length_s:
        for name, (share, level_w) in powers.items():
            add(name, share * step_s * (1 + uneven * chance.gauss(0, 1)), level_w)
        if longest_pause:
            add(PAUSE, chance.random() * longest_pause * step_s, 95.0)
    levels = [
        (start_s - AROUND_S, 110.0),
        *zip((state.start_s for state in states), watts, strict=True),
        (now_s, 110.0),
    ]
    return Made(states, smoothed(levels, now_s + AROUND_S, smoothed_s) if smoothed_s else levels)


def smoothed(levels: Sequence[tuple[float, float]], end_s: float, time_s: float) -> list[tuple[float, float]]:
    """Levels as something shows them that follows with a time constant: the mean of each slice of time."""
    found = []
    shown_w = levels[0][1]
    for (from_s, level_w), until_s in zip(levels, [*(moment_s for moment_s, _ in levels[1:]), end_s], strict=True):
        slices = max(1, round((until_s - from_s) / SLICE_S))
        slice_s = (until_s - from_s) / slices
        keep = math.exp(-slice_s / time_s)
        for number in range(slices):
            mean_w = level_w + (shown_w - level_w) * (1 - keep) * time_s / slice_s if slice_s else level_w
            found.append((from_s + number * slice_s, mean_w))
            shown_w = level_w + (shown_w - level_w) * keep
    return found


def energy_j(levels: Sequence[tuple[float, float]], end_s: float) -> float:
    """Until then."""
    ends_s = [*(moment_s for moment_s, _ in levels[1:]), end_s]
    return list(accumulate(w * (until_s - from_s) for (from_s, w), until_s in zip(levels, ends_s, strict=True)))[-1]
