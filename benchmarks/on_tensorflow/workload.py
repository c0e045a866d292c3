"""Workload on TensorFlow.

TensorFlow takes seconds to import, and is imported after the options have been checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.batch_plan import check_shares
from benchmarks.common.launch import Launch
from benchmarks.common.options import DataOptions
from benchmarks.common.record import RunRecord
from benchmarks.common.samples import SampleWorkload
from benchmarks.common.workload import Feed, Target, Training

if TYPE_CHECKING:
    from benchmarks.on_tensorflow.target import Target as TensorFlowTarget
    from benchmarks.on_tensorflow.tfrecords import Batches
    from benchmarks.on_tensorflow.trainer import Trainer


class TensorFlowWorkload(SampleWorkload):
    """One run; its module `model` builds its trainer, its module `data` makes and reads batches."""

    packages = ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "keras", "numpy")
    unusual = {"compute.xla": {"on": "XLA"}}  # noqa: RUF012

    def __init__(self, options: Any, launch: Launch, files: Sequence[Path], sample: str) -> None:
        """Share the batch and all `files` among the ranks; raises ConfigError if the batch cannot be shared."""
        batch, devices = options.batch.global_batch_size, launch.world_size
        check_shares(devices, batch)
        super().__init__(options, launch, files, sample, batch // devices)

    @contextmanager
    def open(self, record: RunRecord) -> Iterator[Target]:
        """Open the devices, with TensorFlow's strategy."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        from benchmarks.on_tensorflow.target import choose_target

        target = choose_target(self.config.compute, self.launch)
        record.config["compute"]["xla"] = "on" if target.xla else "off"
        yield target

    def build(self, target: Any) -> Training:
        """Return model, optimizer and data of this process."""
        return TensorFlowTraining(self, target)

    def open_batches(self, target: TensorFlowTarget, on_device: bool = False) -> Batches:
        """Return the batches that this process trains on, or one of the same kind that is already on the device."""
        from benchmarks.on_tensorflow.tfrecords import Batches

        data, options = self.module("data"), DataOptions() if on_device else self.config.data
        made, read = partial(data.made, self, target), partial(data.read, self, target)
        return Batches(options, target, self.layout["micro_batch_size"], made, read)


class TensorFlowTraining(Training):
    """Training on TensorFlow."""

    def __init__(self, run: TensorFlowWorkload, target: TensorFlowTarget) -> None:
        from benchmarks.on_tensorflow.tfrecords import COPIED_AHEAD
        from benchmarks.on_tensorflow.trainer import State

        config = run.config
        self.trainer: Trainer = run.module("model").build_trainer(config, target, run.regions)
        self.batches = run.open_batches(target)
        self._run, self._target, self.synchronize = run, target, self.trainer.synchronize
        self.steps_per_call = config.compute.steps_per_call
        # Of several processes, each would have to write a part of some variables only.
        if run.launch.world_size == 1 and not target.on_ipu:
            self.state = State(self.trainer)
        if not target.on_ipu:  # whose steps are one program
            self.step_in_parts = lambda: self.trainer.in_parts(*self.data.take())
        samples_ahead = config.data.parallel_files + target.launch.own_cores
        ahead = config.data.prefetch_batches + 1 + samples_ahead // config.batch.global_batch_size
        ahead += COPIED_AHEAD if target.copied_to else 0
        self.data = self._feed(self.batches, ahead)
        if config.turns.effective:
            self.on_device = self._feed(run.open_batches(target, on_device=True))

    def _feed(self, batches: Batches, steps_ahead: int = 0) -> Feed:
        return Feed(
            lambda: self.trainer.call(batches),
            lambda: next(batches),
            lambda batch: self.trainer.step(*batch),
            steps_ahead,
            lambda: batches.read_so_far(self._run.unit),
            batches.copy_s,
        )

    def losses(self, first: int = 0) -> list[float]:
        """Return the loss of the last step of every call from `first` on, a mean over the global batch."""
        return [float(loss) for loss in self.trainer.losses[first:]]

    def conclude(self, record: RunRecord) -> str:
        """Record the amounts read; return why the run is not valid, or an empty string."""
        return self._run.conclude(record, self._target, self.losses(), *self.batches.records())
