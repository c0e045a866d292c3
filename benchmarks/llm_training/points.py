"""The points of this workload's sweep: what sweeps and forecasts ask of it. Reads no PyTorch.

`value` is of a parameter of workload.yaml, on a system.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.llm_training.config import SIZES, Layout
from benchmarks.llm_training.metrics import gpt_flops_per_token


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


def flops_per_sample(value: Callable[[str], str], model: str) -> float:
    """Model FLOPs of training on one sample, as metrics.gpt_flops_per_token counts them."""
    shape = SIZES[model]
    per_token = gpt_flops_per_token(shape.num_layers, shape.hidden_size, shape.sequence_length, shape.padded_vocab_size)
    return per_token * shape.sequence_length
