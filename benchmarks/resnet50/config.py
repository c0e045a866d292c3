"""Shape of the model, and options of a run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common import options
from benchmarks.common.options import Group, ImageTrainingOptions, data_option, option
from benchmarks.on_tensorflow.options import TensorFlowConfig

NUM_CLASSES = 1000
NATIVE_IMAGE_SIZE = 224
# He et al. 2015 (arXiv:1512.03385), table 1: bottleneck blocks of each stage, and the width of their 3x3 convolution.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
EXPANSION = 4
VARIANTS = ("v1.5", "v2")


@dataclass(frozen=True)
class ModelOptions(Group):
    """Model."""

    variant: str = option("v1.5", "v1.5: stride in the 3x3 convolution; v2: pre-activation", VARIANTS)
    image_size: int = option(
        NATIVE_IMAGE_SIZE, "height and width of an image; only 224 is comparable with other results"
    )


@dataclass(frozen=True)
class DataOptions(options.DataOptions):
    """Data."""

    made_by = "python -m benchmarks.resnet50.prepare"
    data: str = data_option("imagenet", "TFRecords train-*-of-*", "images")


@dataclass(frozen=True)
class Config(TensorFlowConfig):
    """All options of a run."""

    model: ModelOptions
    data: DataOptions
    training: ImageTrainingOptions
