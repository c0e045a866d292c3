"""The loop that is timed: the same for every benchmark."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from benchmarks.common.launch import Launch, mark
from benchmarks.common.options import WindowOptions
from benchmarks.common.record import MEASURED
from benchmarks.common.step_timer import StepTimer

WINDOW = "{kind} window"  # the name of its region, for the sampler
PROGRESS_INTERVAL_S = 2.0


def measure_steps(
    step: Callable[[int], None],
    timer: StepTimer,
    options: WindowOptions,
    launch: Launch,
    agree: Callable[[int], int],
) -> None:
    """Warm-up steps, then measured steps, with a word on progress every few seconds.

    `agree` gives every rank the number of rank 0.
    """
    measured_steps = options.measured_steps
    timer.start()
    said_s = timer.started_s
    while len(timer.step_ends_s) < options.warmup_steps + measured_steps:
        index = len(timer.step_ends_s)
        if index == options.warmup_steps:
            if options.min_measured_s:
                enough = ceil(options.min_measured_s / timer.last_step_time_s)
                measured_steps = agree(max(measured_steps, enough))
            if launch.is_first_on_node:
                mark("begin", WINDOW.format(kind=MEASURED), timer.window_start_s)
        step(index)
        timer.step_done()
        if launch.rank == 0 and timer.step_ends_s[-1] - said_s > PROGRESS_INTERVAL_S:
            said_s = timer.step_ends_s[-1]
            phase = "warm-up" if index < options.warmup_steps else "measured"
            print(f"step {index + 1} of {options.warmup_steps + measured_steps} ({phase})", flush=True)
    timer.finish()
    if launch.is_first_on_node:
        mark("end", WINDOW.format(kind=MEASURED), timer.window_end_s)
