"""The points of this workload's sweep: what `caraml.points` asks of it. Reads no TensorFlow.

A block is that of a system in jube/include/systems.yaml: its keys with their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.common.options import ConfigError
from benchmarks.resnet50.config import VARIANTS
from benchmarks.resnet50.metrics import training_flops_per_image

WORKFLOW = "resnet50"
MAX_MEASURED_S = float("inf")  # a window ends with its steps


def default_model(block: Mapping[str, Any]) -> str:
    """The variant that is trained without a tag."""
    return VARIANTS[0]


def batch_sweep(block: Mapping[str, Any]) -> str:
    """The system's global batch sizes, as one text."""
    return str(block["image_batch_sweep"])


def devices_needed(model: str) -> int:
    """The number that devices must be a multiple of."""
    return 1


def check_point(
    model: str,
    num_devices: int,
    global_batch_size: int,
    micro_batch_size: int | None = None,
    pipeline_parallel_size: int | None = None,
) -> None:
    """Raise ConfigError unless each device gets the same number of images; the last two are not this workload's."""
    if global_batch_size % num_devices:
        raise ConfigError(
            f"global_batch_size {global_batch_size} is not a multiple of the {num_devices} devices: change one of them"
        )


def flops_per_sample(block: Mapping[str, Any], model: str) -> float:
    """Model FLOPs of training on one image of the system's size."""
    return training_flops_per_image(int(block["default_image_size"]))
