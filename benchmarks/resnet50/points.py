"""FLOPs of this workload\'s points, for forecasts; does not import TensorFlow.

`value` returns a parameter of workload.yaml on a system.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.resnet50.metrics import training_flops_per_image


def flops_per_sample(value: Callable[[str], str], model: str) -> float:
    """Return the model FLOPs to train on one image of the system's size."""
    return training_flops_per_image(int(value("default_image_size")))
