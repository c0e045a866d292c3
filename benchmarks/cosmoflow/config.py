"""Shape of the model, and options of a run.

Source of shape and training: MLPerf HPC's CosmoFlow, the reference of github.com/mlcommons/hpc.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common import options
from benchmarks.common.options import data_option, option
from benchmarks.on_tensorflow.options import TensorFlowConfig

NATIVE_SIZE = 128  # voxels along an edge
SIZES = (32, 64, NATIVE_SIZE)
REDSHIFTS = 4  # channels: the same volume at four times
PARAMETERS = 4  # cosmological ones to predict, scaled to -1...1
WIDTHS = (32, 64, 128, 256, 512)  # channels of the convolutions, each followed by a pooling of 2
KERNEL_SIZE = 3
HIDDEN = (128, 64)  # units of the layers before the last


@dataclass(frozen=True)
class ModelOptions:
    """Model."""

    size: int = option(NATIVE_SIZE, "voxels along a volume's edge; only 128 is comparable with other results", SIZES)


@dataclass(frozen=True)
class DataOptions(options.DataOptions):
    """Data."""

    made_by = "python -m benchmarks.cosmoflow.prepare"
    data: str = data_option("cosmoflow", "TFRecords *.tfrecord of one sample each", "volumes")


@dataclass(frozen=True)
class TrainingOptions(options.TrainingOptions):
    """Training."""

    learning_rate: float = option(0.001, "learning rate per 64 samples of the global batch, after its warm-up")
    momentum: float = option(0.9, "momentum of SGD", least=0, below=1)
    dropout: float = option(0.5, "share of the hidden layers' units that are dropped in a step", least=0, below=1)


@dataclass(frozen=True)
class Config(TensorFlowConfig):
    """All options of a run."""

    model: ModelOptions
    data: DataOptions
    training: TrainingOptions
