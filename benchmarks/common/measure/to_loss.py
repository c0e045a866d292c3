"""Window of a training to a loss: from the first step until the smoothed loss is at the target.

As in MLPerf's training rules, the time begins with the first step, as weights that have learnt in a warm-up cannot be
reset. So it contains the first step's preparations, such as compilation.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.common.measure.measured import Measured, Session
from benchmarks.common.measure.together import read_copies
from benchmarks.common.measure.window import in_a_window
from benchmarks.common.options import ConfigError, WindowOptions
from benchmarks.common.progress import Pace
from benchmarks.common.workload import Training
from record.derived import SMOOTHED_LOSSES, computed, goal, smoothed

# Calls between two looks at the losses, each of which waits for the device: half of the losses that a look is at.
LOOK_EVERY = SMOOTHED_LOSSES // 2


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
    metrics = {**measured.metrics, "target_loss": asked.to_loss, "smoothed_losses": SMOOTHED_LOSSES}
    metrics |= computed(goal(f"{session.run.unit}s"), {**metrics, "losses": course.losses})
    return measured._replace(metrics=metrics, problem=course.problem(metrics["measured_s"]))
