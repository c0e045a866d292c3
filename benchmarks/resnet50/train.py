"""Workload ResNet-50."""

from __future__ import annotations

from functools import partial

from benchmarks.common import session
from benchmarks.common.launch import Launch
from benchmarks.on_tensorflow.workload import TensorFlowWorkload
from benchmarks.resnet50.config import NUM_CLASSES, Config
from benchmarks.resnet50.imagenet import find_tfrecords


class ResNet50(TensorFlowWorkload):
    """One run of ResNet-50."""

    name = "resnet50"
    unit = "image"
    description = "Train ResNet-50 for some steps with TensorFlow and record the speed."
    options = Config
    samples_per_epoch = 1_281_167  # of ImageNet's training set
    damage = f"damaged, or a label that is not from 1 to {NUM_CLASSES}"

    def __init__(self, options: Config, launch: Launch) -> None:
        size = options.model.image_size
        super().__init__(options, launch, find_tfrecords(options.data), f"{size} pixels")
        self.layout["image_size"] = size

    @staticmethod
    def model(options: Config) -> str:
        """Return the model and its variant."""
        return f"ResNet-50 {options.model.variant}"


main = partial(session.main, ResNet50)
