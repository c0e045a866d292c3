"""Plan of a run before it starts: layout, batch arithmetic, parameters and FLOPs."""

from __future__ import annotations

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.sizes import ModelSize


def stage_parameters(shape: ModelSize, layout: Layout, stage: int) -> int:
    """Return the number of parameters on one device of a pipeline stage.

    The first and the last stage both have a tied embedding.
    """
    stages, layer = layout.pipeline_parallel_size, shape.layer
    layers = shape.num_layers // stages
    found = layers * (layer.split // layout.tensor_parallel_size + layer.on_each)
    ends = (stage == 0) + (stage == stages - 1)
    vocabulary = shape.padded_vocab_size // layout.tensor_parallel_size * shape.hidden_size
    found += vocabulary * min(ends, shape.embeddings)
    if stage == stages - 1:
        found += shape.last_norm
    return found + layers * shape.experts // layout.expert_parallel_size * layer.expert


def describe(shape: ModelSize, layout: Layout, plan: BatchPlan, sequence_length: int) -> list[str]:
    """Return the lines of the plan, which follow those of the layout."""
    per_token = shape.flops_per_token(sequence_length)
    tokens = plan.global_batch_size * sequence_length
    counts = sorted({stage_parameters(shape, layout, stage) for stage in range(layout.pipeline_parallel_size)})
    return [
        f"num_parameters: {shape.num_parameters}",
        *([f"num_active_parameters: {shape.num_active_parameters}"] if shape.experts else []),
        f"parameters_per_device: {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))}",
        f"tokens_per_step: {tokens}",
        f"model_flops_per_token: {per_token:.6g}",
        f"model_flops_per_step: {per_token * tokens:.6g}",
    ]
