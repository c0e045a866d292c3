"""The points of this workload's sweep: what forecasts ask of it. Reads no TensorFlow.

`value` is of a parameter of workload.yaml, on a system.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.cosmoflow.metrics import training_flops_per_sample


def flops_per_sample(value: Callable[[str], str], model: str) -> float:
    """Model FLOPs of training on one volume of a size."""
    return training_flops_per_sample(int(model))
