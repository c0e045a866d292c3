"""The loop that is timed: the same for every benchmark."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.common.launch import Launch, mark
from benchmarks.common.options import WindowOptions
from benchmarks.common.record import MEASURED
from benchmarks.common.regions import MarkedSteps
from benchmarks.common.step_timer import StepTimer

WINDOW = "{kind} window"  # the name of its region, for the sampler
PROGRESS_INTERVAL_S = 2.0
LEAST_PARTS = 20  # of a window of which steps are waited for together: what one sees of its course


def to_go(begun_s: float, done: int, total: int) -> str:
    """Return the time left in words, at the pace since `begun_s` of the monotonic clock."""
    return f"{(time.monotonic() - begun_s) / done * (total - done):.0f} s to go"


def measure_steps(
    step: Callable[[], None],
    timer: StepTimer,
    options: WindowOptions,
    launch: Launch,
    agree: Callable[[int], int],
    marked: MarkedSteps,
    together_s: float = 0.0,
) -> None:
    """Warm-up steps, then measured steps, with a word on progress every few seconds.

    `agree` gives every rank the number of rank 0. Where steps turn out faster than those of the warm-up, more follow,
    until the window is as long as was asked for. A timer without device events waits for each step, or for those of
    `together_s` seconds together: a device that is waited for has nothing to do until it is told of its next step.
    """
    said_s = time.monotonic()

    def take(steps: int, phase: str) -> None:
        nonlocal said_s
        begun_s = time.monotonic()
        for index in range(steps):
            if timer.at_mark:
                marked.begin()
            step()
            timer.step_done()
            if timer.at_mark:
                marked.end()
            if launch.rank == 0 and time.monotonic() - said_s > PROGRESS_INTERVAL_S:
                said_s = time.monotonic()
                print(f"{phase} step {index + 1} of {steps}, {to_go(begun_s, index + 1, steps)}", flush=True)

    timer.start()
    take(options.warmup_steps, "warm-up")
    measured_steps = agree(options.steps_to_measure(timer.warmup_step_times_s))
    together = 1
    if together_s and timer.warmup_step_times_s:
        together = int(together_s / min(timer.warmup_step_times_s))
    together = agree(max(1, min(together, measured_steps // LEAST_PARTS)))
    measured_steps += -(measured_steps % together) if options.max_measured_s else -measured_steps % together
    timer.begin_window(together)
    marked.begin_window(timer.window_start_s)
    if launch.is_first_on_node:
        mark("begin", WINDOW.format(kind=MEASURED), timer.window_start_s)
    while measured_steps:
        take(measured_steps, "measured")
        timer.finish()
        more = agree(options.steps_left(len(timer.host_times_s) * together, timer.window_s))
        measured_steps = more + -more % together
    marked.end_window(MEASURED, timer.window_end_s)
    if launch.is_first_on_node:
        mark("end", WINDOW.format(kind=MEASURED), timer.window_end_s)
