"""Training data of ResNet-50: JPEGs in a folder for each class."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.common.options import ConfigError
from benchmarks.on_pytorch.files import Damaged, Read
from benchmarks.resnet50_torch.config import NUM_CLASSES
from benchmarks.resnet50_torch.model import import_torchvision

# Mean and deviation of ImageNet's training set, per channel, for values from 0 to 255.
MEAN = np.array((123.675, 116.28, 103.53), np.float32)
DEVIATION = np.array((58.395, 57.12, 57.375), np.float32)


def class_labels(files: Sequence[Path]) -> dict[str, int]:
    """Return labels from 0 by the order of the classes' folders; raises ConfigError if there are too many."""
    names = sorted({path.parent.name for path in files})
    if len(names) > NUM_CLASSES:
        raise ConfigError(f"--data-dir has {len(names)} folders with images: one for each of {NUM_CLASSES} classes")
    return {name: label for label, name in enumerate(names)}


class Jpegs:
    """Reader of images, augmented as by Szegedy et al. 2014 (arXiv:1409.4842)."""

    def __init__(self, size: int, labels: dict[str, int]) -> None:
        import_torchvision()
        from torchvision import transforms

        # They use PyTorch's generator, which has another seed in each process that reads.
        self._augment = transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()])
        self._labels, self._encoded = labels, b""
        self.reader = Read(((size, size, 3), np.float32), ((), np.int64), self.read, self.decode)

    def read(self, path: Path, image: Any, label: Any) -> int:
        """Read a file, and return its bytes."""
        self._encoded = path.read_bytes()
        label[...] = self._labels[path.parent.name]
        return len(self._encoded)

    def decode(self, image: Any) -> None:
        """Decode what was read last into an image; raises Damaged if it is none."""
        try:
            with Image.open(io.BytesIO(self._encoded)) as picture:
                values = np.asarray(self._augment(picture.convert("RGB")), np.float32)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise Damaged(str(error)) from error
        image[...] = (values - MEAN) / DEVIATION
