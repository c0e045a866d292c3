"""FLOPs of this workload\'s points, for forecasts; does not import PyTorch.

`value` returns a parameter of workload.yaml on a system.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.deepcam.config import SIZES
from benchmarks.deepcam.metrics import training_flops_per_sample


def flops_per_sample(value: Callable[[str], str], model: str) -> float:
    """Return the model FLOPs to train on one image of a size."""
    return training_flops_per_sample(*SIZES[model])
