"""State of a run while it is measured, and the measurements of one process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.launch import Launch
from benchmarks.common.measure.regions import MarkedSteps
from benchmarks.common.record import Window
from benchmarks.common.workload import Target, Training, Workload
from jpwr.median import percentile


class Session(NamedTuple):
    """State of a run while it is measured."""

    run: Workload
    training: Training
    target: Target
    options: Any  # of the workload
    launch: Launch
    marked: MarkedSteps

    @property
    def host_runs_ahead(self) -> bool:
        """Whether the device has no events, so that the host waits for several steps together."""
        return self.target.kind == "gpu" and self.target.record_event is None

    @property
    def work_per_call(self) -> int:
        """Work of one call over all devices, in the workload's unit."""
        return self.training.steps_per_call * self.run.work_per_step

    def agree(self, number: int) -> int:
        """Return rank 0's number."""
        return int(self.target.gather(number)[0])

    def longest_s(self, times_s: Sequence[float]) -> float:
        """Return the longest sum of times over all nodes, as a busy node leaves its windows later than others."""
        of_ranks: list[float] = self.target.gather(sum(times_s) if self.launch.is_first_on_node else 0.0)
        return max(of_ranks)

    def write_next_to_record(self, suffix: str, text: Callable[[], str], without: str) -> None:
        """Write a file next to the record, on rank 0; a failure is reported and does not fail the run."""
        if self.launch.rank:
            return
        path = Path(self.options.run.record).with_suffix(suffix)
        try:
            path.write_text(text())
        except OSError as error:
            print(f"{path} cannot be written ({error.strerror}): {without}", file=sys.stderr)


class Measured(NamedTuple):
    """Measurements of one process."""

    windows: list[Window]  # of this node
    step_times_s: list[float]
    metrics: dict[str, Any]
    steps_per_batch: int  # that are marked together as one Batch
    problem: str = ""  # why the run is not valid

    @classmethod
    def of(
        cls,
        session: Session,
        windows: list[Window],
        host_times_s: Sequence[float],
        step_times_s: list[float],
        steps_each: int,
        steps_per_batch: int,
        input_metrics: dict[str, Any],
    ) -> Measured:
        """Return the measurements with their work; each of the times is that of `steps_each` steps."""
        run, steps = session.run, len(step_times_s) * steps_each
        metrics = {
            "host_step_time_median_s": percentile(host_times_s, 50) / steps_each,
            **work_metrics(run, steps),
            **input_metrics,
        }
        return cls(windows, step_times_s, metrics, steps_per_batch)


def work_metrics(run: Workload, steps: int) -> dict[str, Any]:
    """Return the steps of the whole measured window, and the model FLOPs of a unit of work."""
    return {
        "measured_steps": steps,
        f"model_flops_per_{run.unit}": run.flops.per_unit,
        "model_flops_source": run.flops.source,
    }


def epcc_metrics(run: Workload, work: int, time_s: float) -> dict[str, float]:
    """Return the work and time of EPCC's processing speed: all samples, including those of the first step.

    Defined for runs on files, as theirs are. Source: EPCC's suite of ResNet-50, CosmoFlow and DeepCAM.
    """
    return {f"epcc_{run.unit}s": work, "epcc_s": time_s} if run.files else {}
