"""Workload CosmoFlow."""

from __future__ import annotations

from functools import partial

from benchmarks.common import session
from benchmarks.common.input_files import find_files
from benchmarks.common.launch import Launch
from benchmarks.cosmoflow.config import REDSHIFTS, Config
from benchmarks.on_tensorflow.workload import TensorFlowWorkload


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


main = partial(session.main, CosmoFlow)
