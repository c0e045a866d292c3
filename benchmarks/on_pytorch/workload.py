"""Workload on PyTorch whose gradients are averaged over all devices.

PyTorch takes seconds to import, and is imported after the options have been checked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.common.samples import SampleWorkload
from benchmarks.common.workload import Target, Training, Workload

if TYPE_CHECKING:
    import torch

    from benchmarks.on_pytorch.files import Counts, FilePasses, MadePasses, Read
    from benchmarks.on_pytorch.target import Target as PyTorchTarget
    from benchmarks.on_pytorch.trainer import Trainer


class OnPyTorch(Workload):
    """Workload that opens this process's device by PyTorch."""

    config: Any  # its options, with `compute`
    launch: Launch

    @contextmanager
    def open(self, record: RunRecord) -> Iterator[Target]:
        """Open the device, with the process group of all ranks."""
        from benchmarks.on_pytorch.target import choose_target, process_group

        target = choose_target(self.config.compute, self.launch)
        with process_group(target):
            yield target


class PyTorchWorkload(OnPyTorch, SampleWorkload):
    """One run; its model and data are the workload's own."""

    packages: ClassVar[tuple[str, ...]] = ("torch", "numpy")

    def __init__(self, options: Any, launch: Launch, files: Sequence[Path], sample: str) -> None:
        """Share the batch and all `files` among the ranks; raises ConfigError if the batch cannot be shared."""
        batch, devices = options.batch, launch.world_size
        micro = batch.micro_batch_size or max(1, batch.global_batch_size // devices)
        self.shares = BatchPlan(batch.global_batch_size, micro, devices)
        super().__init__(options, launch, files, sample, micro)
        self.layout["grad_accum_steps"] = self.shares.grad_accum_steps

    def build(self, target: Any) -> Training:
        """Return model, optimizer and data of this rank."""
        return PyTorchTraining(self, target)

    def open_trainer(self, target: PyTorchTarget) -> Trainer:
        """Return model and optimizer of this rank, by the workload's module `model`."""
        build = self.module("model").build_trainer
        trainer: Trainer = build(self.config, self.shares.grad_accum_steps, target, self.regions)
        return trainer

    @abstractmethod
    def made_sample(self, number: int) -> tuple[Any, Any]:
        """Return a random sample and its labels as numpy arrays; the same for a number on every rank."""

    def reader(self) -> Read:
        """Return the reader of `files`, for a workload that has some; raises ConfigError if it lacks something."""
        raise NotImplementedError

    def file_passes(self, device: torch.device) -> FilePasses:
        """Return the passes of this rank's files."""
        from benchmarks.on_pytorch.files import FilePasses, Samples

        seed, launch = self.config.training.seed_of_data + self.launch.rank, self.launch
        samples = Samples(self.files, self.reader(), self.shares.micro_batch_size, seed)
        return FilePasses(samples, self.config.data, launch.own_cores, device)

    def made_passes(self, target: PyTorchTarget) -> MadePasses:
        """Return this rank's part of a global batch that is the same for every layout."""
        from benchmarks.on_pytorch.files import MadePasses

        plan, rank = self.shares, self.launch.rank
        numbers = [plan.sample_indices(0, index, rank) for index in range(plan.grad_accum_steps)]
        return MadePasses(([self.made_sample(number) for number in own] for own in numbers), target)


class PyTorchTraining(Training):
    """Training on PyTorch."""

    def __init__(self, run: PyTorchWorkload, target: PyTorchTarget) -> None:
        from benchmarks.on_pytorch.files import Counts, feed
        from benchmarks.on_pytorch.state import State

        self.trainer, made = run.open_trainer(target), run.made_passes(target)
        self.state = State(self.trainer, run.launch.rank)
        self._run, self._target, self.synchronize = run, target, target.synchronize
        feed_of, options = partial(feed, self.trainer, run.regions, run.unit, made), run.config.data
        self._counts: Callable[[], Counts] = Counts
        if options.reads_files:
            files = run.file_passes(target.device)
            self.data, self._counts = feed_of(files), lambda: files.counts
        else:
            self.data = feed_of(made.on_device() if options.data == "synthetic" else made.from_host())
        self.on_device = feed_of(made.on_device()) if run.config.turns.effective else None

    def losses(self, first: int = 0) -> list[float]:
        """Return the losses of all steps from `first` on, as means over all ranks, on every rank."""
        return self.trainer.losses(first)

    def conclude(self, record: RunRecord) -> str:
        """Record the amounts read; return why the run is not valid, or an empty string."""
        counts = self._counts()
        tried = int(counts.samples + counts.damaged)
        return self._run.conclude(record, self._target, self.losses(), tried, int(counts.damaged))
