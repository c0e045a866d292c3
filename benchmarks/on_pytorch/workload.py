"""A workload on PyTorch whose gradients are averaged over all devices, as the frame asks for it.

PyTorch takes seconds to import: that is done once the options are known to be good.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.good_run import run_problem
from benchmarks.common.input_files import own_files
from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.common.workload import Target, Training, Workload

if TYPE_CHECKING:
    from benchmarks.on_pytorch.files import Read
    from benchmarks.on_pytorch.target import Target as PyTorchTarget
    from benchmarks.on_pytorch.trainer import Trainer


class PyTorchWorkload(Workload):
    """One run; what trains and what is trained on is the workload's own."""

    packages: ClassVar[tuple[str, ...]] = ("torch", "numpy")
    damage = "damaged"  # what makes a file one that cannot be used

    def __init__(self, options: Any, launch: Launch, files: Sequence[Path]) -> None:
        """`files` are all that there are; raises ConfigError for a batch that cannot be shared out."""
        self.config, self.launch = options, launch
        batch, devices = options.batch, launch.world_size
        micro = batch.micro_batch_size or max(1, batch.global_batch_size // devices)
        self.shares = BatchPlan(batch.global_batch_size, micro, devices)
        self.layout = {
            "num_devices": devices,
            "num_nodes": launch.num_nodes,
            "global_batch_size": batch.global_batch_size,
            "micro_batch_size": micro,
            "data_parallel_size": devices,
            "grad_accum_steps": self.shares.grad_accum_steps,
        }
        self.data, self.stage, self.work_per_sample = options.data.data, options.data.stage, 1
        self.files = own_files(files, launch.rank, launch.world_size)

    @contextmanager
    def open(self, record: RunRecord) -> Iterator[Target]:
        """The device, with the process group of all ranks."""
        from benchmarks.on_pytorch.target import choose_target, process_group

        target = choose_target(self.config.compute, self.launch)
        with process_group(target):
            yield target

    def build(self, target: Any) -> Training:
        """Model, optimizer and data of this rank."""
        return PyTorchTraining(self, target)

    @abstractmethod
    def open_trainer(self, target: PyTorchTarget) -> Trainer:
        """Model and optimizer of this rank."""

    @abstractmethod
    def made_sample(self, number: int) -> tuple[Any, Any]:
        """A random sample and its labels as numpy's arrays, the same for one number on every rank."""

    @abstractmethod
    def reader(self) -> Read:
        """What reads one of `files`; raises ConfigError where it lacks something."""

    def metrics(self) -> dict[str, Any]:
        """What the record's metrics have of this workload alone."""
        return {}


class PyTorchTraining:
    """A Training."""

    steps_per_call = 1

    def __init__(self, run: PyTorchWorkload, target: PyTorchTarget) -> None:
        from benchmarks.on_pytorch.files import Feed, FilePasses, MadePasses

        data = run.config.data
        self.trainer = run.open_trainer(target)
        self._run, self._target = run, target
        made = MadePasses(run, target.device)
        self.on_device = None
        if run.config.turns.effective:
            self.on_device = Feed(self.trainer, made.on_device(), run, target)
        if data.reads_files:
            self.data = Feed(self.trainer, FilePasses(run, target.device), run, target)
        else:
            passes = made.on_device() if data.data == "synthetic" else made.from_host()
            self.data = Feed(self.trainer, passes, run, target)

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""
        self._target.synchronize()

    def losses(self) -> list[float]:
        """Of every step, the mean over all ranks."""
        return self.trainer.losses()

    def conclude(self, record: RunRecord) -> str:
        """Fill in what was read; why the run is not a good one."""
        counts = self.data.counts
        of_ranks = self._target.gather([counts.samples + counts.damaged, counts.damaged])
        read, damaged = (int(sum(numbers)) for numbers in zip(*of_ranks, strict=True))
        record.metrics |= {**self._run.metrics(), "records_read": read, "records_damaged": damaged}
        return run_problem(self.losses(), read, damaged, self._run.damage)
