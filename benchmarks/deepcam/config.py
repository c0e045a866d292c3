"""Shape of the data, and options of a run.

Source of shape and training: MLPerf HPC's DeepCAM, the reference of github.com/mlcommons/hpc.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common import options
from benchmarks.common.options import SampleConfig, data_option, option
from benchmarks.on_pytorch import options as on_pytorch

CHANNELS = 16  # quantities of the atmosphere
# Pixels of each class in the training set: background, tropical cyclone, atmospheric river.
FREQUENCIES = (0.986267818390377, 0.0004578708870701058, 0.01327431072255291)
CLASSES = len(FREQUENCIES)
WEIGHT_POWER = -0.125  # a class has its frequency to this power as its weight in the loss
SIZES = {"64x96": (64, 96), "192x288": (192, 288), "768x1152": (768, 1152)}  # height and width in pixels
NATIVE_SIZE = "768x1152"


@dataclass(frozen=True)
class ModelOptions:
    """Model."""

    size: str = option(
        NATIVE_SIZE,
        "height x width of an image in pixels; only 768x1152 is comparable with other results",
        tuple(SIZES),
    )


@dataclass(frozen=True)
class BatchOptions(on_pytorch.BatchOptions):
    """Batch."""

    global_batch_size: int = option(2, "samples per optimizer step, over all devices")


@dataclass(frozen=True)
class DataOptions(options.DataOptions):
    """Data."""

    made_by = "python -m benchmarks.deepcam.prepare"
    data: str = data_option("deepcam", "HDF5 data-*.h5 of one sample each with stats.h5", "fields")
    parallel_files: int = option(4, "processes of each rank that read files")


@dataclass(frozen=True)
class Config(SampleConfig):
    """All options of a run."""

    model: ModelOptions
    batch: BatchOptions
    data: DataOptions
    training: on_pytorch.TrainingOptions
