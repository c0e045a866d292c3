"""Options of a run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common import options
from benchmarks.common.options import Group, ImageTrainingOptions, SampleConfig, data_option, option
from benchmarks.on_pytorch.options import BatchOptions

NUM_CLASSES = 1000


@dataclass(frozen=True)
class ModelOptions(Group):
    """Model."""

    image_size: int = option(224, "height and width of an image; only 224 is comparable with other results")


@dataclass(frozen=True)
class KernelOptions:
    """Kernels."""

    compile: str = option(
        "auto",
        "inductor: torch.compile of the model; eager: without; auto: inductor on GPUs, eager on CPUs, where compiling "
        "takes minutes",
        ("auto", "inductor", "eager"),
    )


@dataclass(frozen=True)
class DataOptions(options.DataOptions):
    """Data."""

    made_by = "python -m benchmarks.resnet50.prepare --folders"
    data: str = data_option("imagenet", "a folder of JPEGs for each class, as ImageNet is distributed", "images")


@dataclass(frozen=True)
class Config(SampleConfig):
    """All options of a run."""

    model: ModelOptions
    batch: BatchOptions
    data: DataOptions
    training: ImageTrainingOptions
    kernels: KernelOptions = KernelOptions()
