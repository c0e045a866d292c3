"""The points of this workload's sweep: what `caraml.points` asks of it. Reads no PyTorch.

A block is that of a system in jube/include/systems.yaml: its keys with their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.llm_training.config import SIZES, Layout
from benchmarks.llm_training.metrics import gpt_flops_per_token

WORKFLOW = "llm"
MAX_MEASURED_S = 1800.0  # of a window, as in the workflow


def default_model(block: Mapping[str, Any]) -> str:
    """The size that a system's sweep is of without a tag."""
    return str(block["default_size"])


def batch_sweep(block: Mapping[str, Any]) -> str:
    """The system's global batch sizes, as one text."""
    return str(block["batch_sweep"])


def devices_needed(model: str) -> int:
    """The number that devices must be a multiple of, for the layout of a size of SIZES."""
    return SIZES[model].tensor_parallel_size * SIZES[model].pipeline_parallel_size


def check_point(
    model: str,
    num_devices: int,
    global_batch_size: int,
    micro_batch_size: int | None = None,
    pipeline_parallel_size: int | None = None,
) -> None:
    """Raise ConfigError unless that many devices can share that batch; None is the size's own."""
    shape = SIZES[model]
    layout = Layout(num_devices, shape.tensor_parallel_size, pipeline_parallel_size or shape.pipeline_parallel_size)
    layout.check(shape)
    BatchPlan(global_batch_size, micro_batch_size or shape.micro_batch_size, layout.data_parallel_size)


def flops_per_sample(block: Mapping[str, Any], model: str) -> float:
    """Model FLOPs of training on one sample, as metrics.gpt_flops_per_token counts them."""
    shape = SIZES[model]
    per_token = gpt_flops_per_token(shape.num_layers, shape.hidden_size, shape.sequence_length, shape.padded_vocab_size)
    return per_token * shape.sequence_length
