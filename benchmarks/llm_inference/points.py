"""The points of this workload's sweep: any number of devices can serve any number of requests in flight."""

from __future__ import annotations

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference.models import SHAPES


def check_point(
    model: str,
    num_devices: int,
    global_batch_size: int,
    micro_batch_size: int | None = None,
    pipeline_parallel_size: int | None = None,
) -> None:
    """Raise ConfigError unless the model's heads can be shared by so many devices."""
    shape = SHAPES.get(model)
    if shape and shape.kv_heads % num_devices:
        raise ConfigError(f"{num_devices} devices cannot share the {shape.kv_heads} key-value heads of {model}")
