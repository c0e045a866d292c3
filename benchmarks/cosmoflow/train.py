"""Workload CosmoFlow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.common import session
from benchmarks.common.input_files import find_files
from benchmarks.common.launch import Launch
from benchmarks.cosmoflow.config import REDSHIFTS, Config
from benchmarks.on_tensorflow.workload import TensorFlowWorkload

if TYPE_CHECKING:
    from benchmarks.on_tensorflow.target import Target
    from benchmarks.on_tensorflow.tfrecords import Batches
    from benchmarks.on_tensorflow.trainer import Trainer


class CosmoFlow(TensorFlowWorkload):
    """One run of CosmoFlow."""

    name = "cosmoflow"
    unit = "sample"
    description = "Train CosmoFlow for some steps with TensorFlow and record the speed."
    options = Config
    samples_per_epoch = 524_288  # of MLPerf HPC's training set, from v1.0 on

    def __init__(self, options: Config, launch: Launch) -> None:
        size = options.model.size
        files = find_files(options.data, "*.tfrecord")
        super().__init__(options, launch, files, f"{size} x {size} x {size} x {REDSHIFTS}")
        self.layout["volume_size"] = size

    @staticmethod
    def model(options: Config) -> str:
        """Return the model with the size of its volumes."""
        return f"CosmoFlow {options.model.size}"

    def open_trainer(self, target: Target) -> Trainer:
        """Return model and optimizer of this process."""
        from benchmarks.cosmoflow.model import build_trainer

        return build_trainer(self.config, target, self.regions)

    def open_batches(self, target: Target, on_device: bool = False) -> Batches:
        """Return batches of volumes with their targets."""
        from benchmarks.cosmoflow.data import open_batches

        return open_batches(self, target, on_device)


main = partial(session.main, CosmoFlow)
