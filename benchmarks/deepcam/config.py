"""The data's shape, and the options of a run.

Source of shape and training: MLPerf HPC's DeepCAM, the reference of github.com/mlcommons/hpc.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common import options
from benchmarks.common.options import (
    ComputeOptions,
    ConfigError,
    RunOptions,
    TurnsOptions,
    WindowOptions,
    option,
    positive,
)
from benchmarks.on_pytorch.options import BatchOptions

CHANNELS = 16  # quantities of the atmosphere
# Pixels of each class in the training set: background, tropical cyclone, atmospheric river.
FREQUENCIES = (0.986267818390377, 0.0004578708870701058, 0.01327431072255291)
CLASSES = len(FREQUENCIES)
WEIGHT_POWER = -0.125  # a class counts in the loss with its frequency to this power
SIZES = {"64x96": (64, 96), "192x288": (192, 288), "768x1152": (768, 1152)}  # pixels down and across
NATIVE_SIZE = "768x1152"


@dataclass(frozen=True)
class ModelOptions:
    """Model."""

    size: str = option(NATIVE_SIZE, "pixels of a picture; only 768x1152 is comparable with others", tuple(SIZES))

    @property
    def is_comparable(self) -> bool:
        return self.size == NATIVE_SIZE


@dataclass(frozen=True)
class DataOptions(options.DataOptions):
    """Data."""

    made_by = "python -m benchmarks.deepcam.prepare"
    data: str = option(
        "synthetic",
        "synthetic: one batch that stays on the device; synthetic-host: made on the host and copied; "
        "deepcam: HDF5 data-*.h5 of one sample each with stats.h5; fake-deepcam: the same of made fields, by prepare",
        ("synthetic", "synthetic-host", "deepcam", "fake-deepcam"),
    )
    parallel_files: int = option(4, "processes of each rank that read files")


@dataclass(frozen=True)
class TrainingOptions:
    """Training."""

    optimizer: str = option("adam", "Adam with decoupled weight decay, or LAMB", ("adam", "lamb"))
    learning_rate: float = option(0.001, "learning rate after its warm-up")
    learning_rate_warmup_steps: int = option(100, "steps over which the learning rate rises in a line")
    weight_decay: float = option(0.01, "weight decay")
    seed: int = option(1234, "seed of weights and data")

    def __post_init__(self) -> None:
        positive(self, "learning_rate", "learning_rate_warmup_steps")
        if self.weight_decay < 0:
            raise ConfigError("weight_decay must be 0 or more")


@dataclass(frozen=True)
class Config:
    """All options of a run."""

    model: ModelOptions
    batch: BatchOptions
    compute: ComputeOptions
    data: DataOptions
    turns: TurnsOptions
    training: TrainingOptions
    window: WindowOptions
    run: RunOptions

    def __post_init__(self) -> None:
        self.data.check_turns(self.turns)
