"""Which points of a sweep can run: what `caraml.points` asks of this workload. Reads no PyTorch."""

from __future__ import annotations

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.llm_training.config import SIZES, Layout


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
