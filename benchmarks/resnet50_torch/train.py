"""Workload ResNet-50 on PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.common import session
from benchmarks.common.input_files import find_files
from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.on_pytorch.workload import PyTorchWorkload
from benchmarks.resnet50_torch.config import NUM_CLASSES, Config

if TYPE_CHECKING:
    from benchmarks.on_pytorch.files import Read
    from benchmarks.on_pytorch.target import Target
    from benchmarks.on_pytorch.trainer import Trainer


class ResNet50(PyTorchWorkload):
    """One run of ResNet-50."""

    name, unit = "resnet50_torch", "image"
    description = "Train torchvision's ResNet-50 for some steps with PyTorch and record the speed."
    packages = ("torch", "torchvision", "numpy", "pillow")
    options = Config
    unusual = {"kernels.compile": {"inductor": "compiled", "eager": "eager"}}  # noqa: RUF012
    samples_per_epoch = 1_281_167  # of ImageNet's training set
    damage = "damaged"

    def __init__(self, options: Config, launch: Launch) -> None:
        size = options.model.image_size
        self._all_files = find_files(options.data, "*/*.JPEG")
        super().__init__(options, launch, self._all_files, f"{size} pixels")
        self.layout["image_size"] = size

    @staticmethod
    def model(options: Config) -> str:
        """Return the model with its source."""
        return "ResNet-50 v1.5 torchvision"

    @contextmanager
    def open(self, record: RunRecord) -> Iterator[Any]:
        """Open the device; record whether the model is compiled."""
        with super().open(record) as target:
            asked = self.config.kernels.compile
            chosen = asked if asked != "auto" else "inductor" if target.kind == "gpu" else "eager"
            self._compiled = chosen == "inductor"
            record.config["kernels"]["compile"] = chosen
            yield target

    def open_trainer(self, target: Target) -> Trainer:
        """Return model and optimizer of this rank."""
        from benchmarks.resnet50_torch.model import build_trainer

        return build_trainer(self.config, self._compiled, target, self.shares.grad_accum_steps, self.regions)

    def made_sample(self, number: int) -> tuple[Any, Any]:
        """Return random values as an image, and a random class."""
        import numpy as np

        chance, size = np.random.default_rng((self.config.training.seed_of_data, number)), self.layout["image_size"]
        return chance.standard_normal((size, size, 3), np.float32), chance.integers(NUM_CLASSES)

    def reader(self) -> Read:
        """Return the reader of JPEGs; raises ConfigError if there are more classes than the model has."""
        from benchmarks.resnet50_torch.data import Jpegs, class_labels

        return Jpegs(self.layout["image_size"], class_labels(self._all_files)).reader


main = partial(session.main, ResNet50)
