"""Parameters and floating-point operations of the network."""

from __future__ import annotations

from benchmarks.resnet50.config import EXPANSION, NUM_CLASSES, STAGES, convolutions

FLOPS_SOURCE = "2 x multiply-adds of all convolutions and the last layer, x 3 for training"
SAMPLES_PER_EPOCH = 1_281_167  # of ImageNet's training set


def forward_flops_per_image(image_size: int) -> int:
    """Return the FLOPs of the forward pass on one image: convolutions and the last layer, 8.2 GFLOP at 224 pixels."""
    return sum(layer.flops for layer in convolutions(image_size))


def training_flops_per_image(image_size: int) -> int:
    """Return the FLOPs to train on one image: forward, and twice as much backward."""
    return 3 * forward_flops_per_image(image_size)


def num_parameters(variant: str) -> int:
    """Return the trainable parameters: kernels, two per channel of each normalisation, and the last layer's biases."""
    kernels = sum(layer.weights for layer in convolutions(32))
    normalised = 64  # v1.5: after every convolution
    width_in = 64
    for blocks, width in STAGES:
        if variant == "v1.5":
            normalised += blocks * (2 * width + EXPANSION * width) + EXPANSION * width
        else:  # v2: before every convolution of a block, and once at the end
            normalised += width_in + (blocks - 1) * EXPANSION * width + blocks * 2 * width
        width_in = EXPANSION * width
    if variant == "v2":
        normalised += width_in - 64  # the first block normalises the first convolution
    return kernels + 2 * normalised + NUM_CLASSES
