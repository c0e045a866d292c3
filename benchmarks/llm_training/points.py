"""Points of this workload, for sweeps and predictions; does not import PyTorch."""

from __future__ import annotations

from math import lcm

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.plan import stage_memory
from benchmarks.llm_training.sizes import SIZES, ModelSize


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
    shape = SIZES[model]
    layout = _layout(shape, num_devices, pipeline_parallel_size)
    layout.check(shape)
    BatchPlan(global_batch_size, micro_batch_size or shape.micro_batch_size, layout.data_parallel_size)


def _layout(shape: ModelSize, num_devices: int, pipeline_parallel_size: int | None = None) -> Layout:
    return Layout(
        num_devices,
        shape.tensor_parallel_size,
        pipeline_parallel_size or shape.pipeline_parallel_size,
        expert_parallel_size=shape.expert_parallel_size,
    )


def decoder(model: str) -> dict[str, float]:
    """Return the shape and layout of a size of SIZES, for predictions."""
    shape = SIZES[model]
    return {
        "layers": shape.num_layers,
        "hidden": shape.hidden_size,
        "ffn": shape.ffn_hidden_size,
        "vocab": shape.padded_vocab_size,
        "sequence_length": shape.sequence_length,
        "parameters": shape.num_parameters,
        "gated": shape.gated,
        "kv_share": shape.groups / shape.num_heads,
        "experts": shape.experts,
        "micro_batch": shape.micro_batch_size,
        "tensor": shape.tensor_parallel_size,
        "pipeline": shape.pipeline_parallel_size,
    }


def memory_bytes(model: str, num_devices: int, global_batch_size: int, precision: str) -> float:
    """Estimate the memory of the fullest device as --dry-run does, in the size's own layout without recomputation."""
    shape = SIZES[model]
    layout = _layout(shape, num_devices)
    plan = BatchPlan(global_batch_size, shape.micro_batch_size, layout.data_parallel_size)
    stages = range(layout.pipeline_parallel_size)
    return max(
        stage_memory(
            shape,
            layout,
            plan,
            shape.sequence_length,
            stage,
            precision=precision,
            recompute="none",
            sequence_parallel=False,
            shards_optimizer=True,
        ).total
        for stage in stages
    )
