"""Layers, parameters and floating-point operations of the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.cosmoflow.config import HIDDEN, KERNEL_SIZE, PARAMETERS, REDSHIFTS, WIDTHS

FLOPS_SOURCE = (
    "2 x multiply-adds of all convolutions and layers, x 3 for training, but x 2 for the first, whose input has no "
    "gradient"
)
SAMPLES_PER_EPOCH = 524_288  # of MLPerf HPC's training set, from v1.0 on


class Layer(NamedTuple):
    """Convolution, or a dense layer as a convolution on a single voxel."""

    weights: int
    outputs: int
    voxels: int  # of its output

    @property
    def flops(self) -> int:
        """FLOPs of the layer: a multiplication and an addition for each weight and voxel."""
        return 2 * self.weights * self.voxels


def layers(size: int) -> Iterator[Layer]:
    """Yield every layer with weights, for volumes of `size` voxels along an edge."""
    inputs = REDSHIFTS
    for width in WIDTHS:
        yield Layer(KERNEL_SIZE**3 * inputs * width, width, size**3)
        inputs, size = width, size // 2
    inputs *= size**3
    for width in (*HIDDEN, PARAMETERS):
        yield Layer(inputs * width, width, 1)
        inputs = width


def num_parameters(size: int) -> int:
    """Return the number of weights and biases: 8,907,556 for 128 voxels along an edge."""
    return sum(layer.weights + layer.outputs for layer in layers(size))


def forward_flops_per_sample(size: int) -> int:
    """Return the FLOPs of the forward pass on one volume: 68.9 GFLOP for 128 voxels along an edge."""
    return sum(layer.flops for layer in layers(size))


def training_flops_per_sample(size: int) -> int:
    """Return the FLOPs to train on one volume: forward, and twice as much backward except for the first layer.

    192.1 GFLOP for 128 voxels along an edge.
    """
    return 3 * forward_flops_per_sample(size) - next(layers(size)).flops
