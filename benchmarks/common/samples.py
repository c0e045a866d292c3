"""Workloads whose ranks share batches of samples, made or from files. Uses no framework."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.common.input_files import identity, own_files
from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.common.workload import Target, Workload, flops_of_sample, num_parameters

MAX_DAMAGED = 0.001  # share of the records read


class DataError(Exception):
    """The data cannot be used; the message is one sentence with what was found."""


class SampleWorkload(Workload):
    """One run; its model and data are the workload's own."""

    damage: ClassVar[str] = "damaged, or of another size"  # why a record cannot be used
    samples_per_epoch: ClassVar[int]  # of the workload's reference data set

    def __init__(self, options: Any, launch: Launch, files: Sequence[Path], sample: str, micro_batch_size: int) -> None:
        """Share the batch, and all `files` of the data set, among the ranks."""
        self.config, self.launch, self.sample = options, launch, sample
        self.layout = {
            "num_devices": launch.world_size,
            "num_nodes": launch.num_nodes,
            "global_batch_size": options.batch.global_batch_size,
            "micro_batch_size": micro_batch_size,
            "data_parallel_size": launch.world_size,
        }
        self.data, self.stage, self.work_per_sample = options.data.data, options.data.stage, 1
        self.data_set = identity(files, made=self.data.startswith("fake-")) if files else {}
        self.files = own_files(files, launch.rank, launch.world_size)
        # The part of its files' samples that this rank takes, and the number of parts: ranks share few files.
        self.part = (0, 1) if len(files) >= launch.world_size else (launch.rank, launch.world_size)
        model = self.model(options)
        self.num_parameters = num_parameters(self.name, model)
        self.flops = flops_of_sample(self.name, model, sample)

    def module(self, name: str) -> Any:
        """Return a module of the workload's folder that uses the framework, which takes seconds to import."""
        return import_module(f"benchmarks.{self.name}.{name}")

    def conclude(self, record: RunRecord, target: Target, losses: Sequence[float], read: int, damaged: int) -> str:
        """Record the reads of all ranks; return why the run is not valid, or an empty string."""
        record.provenance["data"] = self.data_set
        read, damaged = (int(sum(numbers)) for numbers in zip(*target.gather([read, damaged]), strict=True))
        record.metrics |= {
            "comparable": self.sample == self.facts()["comparable"],
            f"{self.unit}s_per_epoch": self.samples_per_epoch,
            "records_read": read,
            "records_damaged": damaged,
        }
        return run_problem(losses, read, damaged, self.damage)


def divergence(losses: Sequence[float]) -> str:
    """Return which loss is not a finite number, or an empty string."""
    bad = next((call for call, loss in enumerate(losses) if not abs(loss) < float("inf")), None)
    return "" if bad is None else f"the loss is {losses[bad]} in call {bad}: the training diverged"


def run_problem(losses: Sequence[float], read: int, damaged: int, damage: str) -> str:
    """Return why the run is not valid, or an empty string; `damage` describes unusable records.

    Random labels cannot be learnt in a few steps: the loss can only show that the training diverged.
    """
    if diverged := divergence(losses):
        return diverged
    if damaged > MAX_DAMAGED * read:
        return f"{damaged} of {read} records could not be used ({damage}), more than {MAX_DAMAGED:.1%}: check the data"
    return ""
