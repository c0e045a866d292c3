"""Points of this workload, for sweeps; does not import PyTorch."""

from __future__ import annotations

from math import lcm

from benchmarks.llm_training.config import ModelOptions, ParallelOptions, plan_run
from benchmarks.llm_training.sizes import SIZES


def devices_needed(model: str) -> int:
    """Return the number that devices must be a multiple of, for the layout of a size of SIZES."""
    shape = SIZES[model]
    return shape.pipeline_parallel_size * lcm(shape.tensor_parallel_size, shape.expert_parallel_size)


def check_point(
    model: str,
    num_devices: int,
    global_batch_size: int,
    micro_batch_size: int | None = None,
    pipeline_parallel_size: int | None = None,
) -> None:
    """Raise ConfigError unless that many devices can share the batch; None stands for the size's own value."""
    parallel = ParallelOptions(global_batch_size, micro_batch_size, pipeline_parallel_size=pipeline_parallel_size)
    plan_run(ModelOptions(model), parallel, num_devices)
