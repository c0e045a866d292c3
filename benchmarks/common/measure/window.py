"""One measured window: the timed loop of every benchmark, of a number of steps or until the loss is at a target.

As in MLPerf's training rules, a training to a loss is timed from its first step on, as weights that have learnt in a
warm-up cannot be reset. So its window contains the first step's preparations, such as compilation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.common.launch import Launch, mark_window, node_window
from benchmarks.common.measure.measured import Measured, Session, epcc_metrics
from benchmarks.common.measure.regions import MarkedSteps
from benchmarks.common.measure.step_timer import StepTimer
from benchmarks.common.measure.together import read_copies
from benchmarks.common.options import ConfigError, WindowOptions
from benchmarks.common.progress import Pace, to_go
from benchmarks.common.record import MEASURED
from benchmarks.common.workload import Training
from record.arithmetic import SMOOTHED_LOSSES, smoothed

TOGETHER_S = 1.0  # seconds of steps after which the host waits for a GPU without events
LEAST_PARTS = 20  # timed parts of a window, so that the record shows its course
# Calls between two looks at the losses, each of which waits for the device: half of the losses that a look is at.
LOOK_EVERY = SMOOTHED_LOSSES // 2


StepsLeft = Callable[[int, float], int]  # further steps that a window needs, of the steps so far and their seconds


def in_a_window(session: Session, options: WindowOptions | None = None, left: StepsLeft | None = None) -> Measured:
    """Measure in one window, by default of the requested length; all steps use the requested data."""
    target, training = session.target, session.training
    timer = StepTimer(time.monotonic, training.synchronize, target.record_event)
    together_s = TOGETHER_S if session.host_runs_ahead else 0.0
    options, launch = options or session.options.window, session.launch
    measure_steps(training.data.call, timer, options, launch, session.agree, session.marked, together_s, left)
    calls = len(timer.warmup_step_times_s) + len(timer.host_times_s) * timer.steps_together
    calls_s = sum(timer.warmup_step_times_s) + timer.window_s
    steps_each = timer.steps_together * training.steps_per_call
    return Measured.of(
        session,
        [node_window(timer.window_start_s, timer.window_end_s)],
        timer.host_times_s,
        [time_s / training.steps_per_call for time_s in timer.measured_step_times_s],
        steps_each,
        steps_each,
        epcc_metrics(session.run, calls * session.work_per_call, calls_s),
    )


def measure_steps(
    step: Callable[[], None],
    timer: StepTimer,
    options: WindowOptions,
    launch: Launch,
    agree: Callable[[int], int],
    marked: MarkedSteps,
    together_s: float = 0.0,
    steps_left: StepsLeft | None = None,
) -> None:
    """Make warm-up steps, then measured steps, and without `steps_left` print the progress every few seconds.

    `agree` returns rank 0's number on every rank. If steps are faster than those of the warm-up, more follow, until the
    window has the requested length; of several copies of a point, all wait for each other before the window, and their
    windows end together. A timer without device events waits after each step, or after steps of `together_s`
    seconds, as the device is idle from the end of such a wait until its next step.
    """
    pace = Pace()

    def take(steps: int, phase: str) -> None:
        begun_s = time.monotonic()
        for index in range(steps):
            if timer.at_mark:
                marked.begin()
            step()
            timer.step_done()
            if timer.at_mark:
                marked.end()
            if not steps_left and launch.rank == 0 and pace.due:
                print(f"{phase} step {index + 1} of {steps}, {to_go(begun_s, index + 1, steps)}", flush=True)

    timer.start()
    take(options.warmup_steps, "warm-up")
    measured_steps = agree(options.steps_to_measure(timer.warmup_step_times_s))
    together = 1
    if together_s and timer.warmup_step_times_s:
        together = int(together_s / min(timer.warmup_step_times_s))
    together = agree(max(1, min(together, measured_steps // LEAST_PARTS)))
    measured_steps += -(measured_steps % together) if options.max_measured_s else -measured_steps % together
    copies = read_copies()
    if copies:
        agree(copies.wait_for_all() if launch.rank == 0 else 0)
    timer.begin_window(together)
    marked.begin_window(timer.window_start_s)
    mark_window(launch, "begin", MEASURED, timer.window_start_s)
    while measured_steps:
        take(measured_steps, "measured")
        timer.finish()
        steps = len(timer.host_times_s) * together
        more = (steps_left or options.steps_left)(steps, timer.window_s)
        if copies and not more and launch.rank == 0:
            more = copies.steps_left(steps)
        more = agree(more)
        measured_steps = more + -more % together
    marked.end_window(MEASURED, timer.window_end_s)
    mark_window(launch, "end", MEASURED, timer.window_end_s)


class Course:
    """Losses of a training so far, which decide the length of its window; each loss is fetched once."""

    def __init__(self, options: WindowOptions, training: Training, prints: bool) -> None:
        self._options, self._training, self._prints = options, training, prints
        self.losses: list[float] = []
        self._pace = Pace()

    def steps_left(self, steps: int, took_s: float) -> int:
        """Return the number of calls until the next look; 0 at the target, at the time limit and after divergence."""
        self.losses += self._training.losses(len(self.losses))
        loss, target = self.loss, self._options.to_loss
        if self._prints and self._pace.due and loss is not None:
            print(f"loss {loss:.4f} after {steps} calls and {took_s:.0f} s, target {target:g}", flush=True)
        has_ended = loss is not None and not loss > target  # also of a loss that is no number
        return 0 if has_ended or took_s >= self._options.max_measured_s else LOOK_EVERY

    @property
    def loss(self) -> float | None:
        """Mean of the last losses; None before there are enough."""
        return smoothed(self.losses)

    def problem(self, measured_s: float) -> str:
        """Return why the training is not at the target, or an empty string."""
        if self.loss is not None and self.loss <= self._options.to_loss:
            return ""
        reached = "not known" if self.loss is None else f"{self.loss:.4f}"
        return (
            f"--to-loss {self._options.to_loss:g} was asked for, but the loss is {reached} after {len(self.losses)} "
            f"calls in {measured_s:.0f} s: allow more than --max-measured-s {self._options.max_measured_s:g}, or "
            "choose another target"
        )


def to_a_loss(session: Session) -> Measured:
    """Measure from the first step to the target; a run that does not reach it has failed, with how far it came."""
    if read_copies():
        raise ConfigError("--to-loss was asked for copies, which would end one by one: leave out the tag fill")
    asked = session.options.window
    course = Course(asked, session.training, session.launch.rank == 0)
    until_a_look = replace(asked, measured_steps=LOOK_EVERY, min_measured_s=0.0, max_measured_s=0.0, to_loss=0.0)
    measured = in_a_window(session, until_a_look, course.steps_left)
    return measured._replace(problem=course.problem(sum(window.duration_s for window in measured.windows)))
