"""Generate JPEGs of ImageNet's usual sizes, in place of ImageNet.

The images of a class share a pattern, so that there is something to learn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.resnet50.config import NUM_CLASSES

QUALITY = 90
SIZES = ((375, 500), (500, 375), (333, 500), (500, 500))  # heights and widths of most of ImageNet


class MadePicture(NamedTuple):
    """Generated image, which depends on its number and the seed alone."""

    number: int
    classes: int
    seed: int

    @property
    def label(self) -> int:
        """Label from 1, as in the usual TFRecords."""
        return 1 + self.number % self.classes

    def read(self) -> bytes:
        """Return the image as a JPEG."""
        import tensorflow as tf

        height, width = SIZES[self.number % len(SIZES)]
        values = draw(self.label, height, width, (self.seed, self.number))
        encoded: bytes = tf.io.encode_jpeg(values, quality=QUALITY).numpy()
        return encoded


def made_pictures(count: int, classes: int, seed: int) -> list[MadePicture]:
    """Return images of all classes in turn."""
    return [MadePicture(number, min(classes, NUM_CLASSES), seed) for number in range(count)]


def draw(label: int, height: int, width: int, seed: tuple[int, int]) -> Any:
    """Return an image of shape [height, width, 3] in uint8: waves and a colour of the class, with noise."""
    of_class, chance = np.random.default_rng(label), np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) / 100
    values = np.zeros((height, width, 3), np.float32)
    for _ in range(3):
        (across, down), phase = of_class.uniform(-9, 9, 2), chance.uniform(0, 6.3)
        values += np.sin(across * x + down * y + phase)[:, :, None] * of_class.uniform(10, 40, 3)
    values += of_class.uniform(80, 170, 3) + chance.normal(0, 12, values.shape)
    return np.clip(values, 0, 255).astype(np.uint8)
