"""Layers, parameters and floating-point operations of the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.deepcam.config import CHANNELS, CLASSES

FLOPS_SOURCE = (
    "2 x multiply-adds of all convolutions, x 3 for training, but x 2 for the first, whose input has no gradient"
)
SAMPLES_PER_EPOCH = 121_266  # of MLPerf HPC's training set
MIDDLE_BLOCKS = 16
ATROUS_RATES = (1, 6, 12, 18)


class Layer(NamedTuple):
    """Convolution over `pixels` of its output or, if it is transposed, of its input."""

    inputs: int
    outputs: int
    pixels: int
    kernel_size: int = 3
    groups: int = 1
    others: int = 2  # further parameters per output: scale and shift of the following norm, or a bias

    @property
    def weights(self) -> int:
        """Number of weights of the kernels."""
        return self.kernel_size**2 * self.inputs * self.outputs // self.groups

    @property
    def flops(self) -> int:
        """FLOPs of the layer: a multiplication and an addition for each weight and pixel."""
        return 2 * self.weights * self.pixels


def layers(height: int, width: int) -> Iterator[Layer]:
    """Yield every convolution of DeepLabv3+ on Xception with output stride 16, in order."""
    halves = {stride: height * width // stride**2 for stride in (2, 4, 8, 16)}  # pixels after a total stride
    yield Layer(CHANNELS, 32, halves[2])
    yield Layer(32, 64, halves[2])
    for inputs, outputs, before, after in ((64, 128, 2, 4), (128, 256, 4, 8), (256, 728, 8, 16)):
        yield from _separable(inputs, outputs, halves[before])
        yield from _separable(outputs, outputs, halves[before])
        yield from _separable(outputs, outputs, halves[after], others=0)
        yield Layer(inputs, outputs, halves[after], 1)
    small = halves[16]
    for _ in range(3 * MIDDLE_BLOCKS):
        yield from _separable(728, 728, small)
    yield from _separable(728, 728, small)
    yield from _separable(728, 1024, small)
    yield from _separable(1024, 1024, small, others=0)
    yield Layer(728, 1024, small, 1)
    for inputs, outputs in ((1024, 1536), (1536, 1536), (1536, 2048)):
        yield from _separable(inputs, outputs, small)
    for rate in ATROUS_RATES:
        yield Layer(2048, 256, small, 1 if rate == 1 else 3)
    yield Layer(2048, 256, 1, 1)  # of the mean over all pixels
    yield Layer(5 * 256, 256, small, 1)
    yield Layer(128, 48, halves[4], 1)
    yield Layer(256, 256, small)
    yield Layer(256, 256, halves[8])
    yield Layer(256 + 48, 256, halves[4])
    yield Layer(256, 256, halves[4])
    yield Layer(256, 256, halves[4], 1, others=1)
    yield Layer(256, 256, halves[4])
    yield Layer(256, CLASSES, halves[2], others=0)


def _separable(inputs: int, outputs: int, pixels: int, others: int = 2) -> Iterator[Layer]:
    """Yield the convolutions of a separable one: of each channel, and of all channels in each pixel."""
    yield Layer(inputs, inputs, pixels, groups=inputs, others=0)
    yield Layer(inputs, outputs, pixels, 1, others=others)


def num_parameters() -> int:
    """Return the number of parameters: 56,454,720 for every size of image."""
    return sum(layer.weights + layer.others * layer.outputs for layer in layers(16, 16))


def forward_flops_per_sample(height: int, width: int) -> int:
    """Return the FLOPs of the forward pass on one image: 0.655 TFLOP for 768 x 1152 pixels."""
    return sum(layer.flops for layer in layers(height, width))


def training_flops_per_sample(height: int, width: int) -> int:
    """Return the FLOPs to train on one image: forward, and twice as much backward except for the first layer.

    1.96 TFLOP for 768 x 1152 pixels.
    """
    return 3 * forward_flops_per_sample(height, width) - next(layers(height, width)).flops
