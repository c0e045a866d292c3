"""Plan of a run before it starts: layout, batch arithmetic, parameters, FLOPs and memory of a device."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.sizes import ModelSize

GIB = 2**30
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 2}  # per weight; with fp8, weights are stored in bf16
GRADIENT_BYTES = 4  # per gradient, which is summed in float32


@dataclass(frozen=True)
class Memory:
    """Estimated bytes on the fullest device of a stage, without those of the framework and its kernels."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        """Sum of all parts, in bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits


def stage_parameters(shape: ModelSize, layout: Layout, stage: int) -> int:
    """Return the number of parameters on one device of a pipeline stage."""
    return sum(_stage_parameters(shape, layout, stage))


def _stage_parameters(shape: ModelSize, layout: Layout, stage: int) -> tuple[int, int]:
    """Return the parameters that all replicas of a device have, and those of its experts.

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
    return found, layers * shape.experts // layout.expert_parallel_size * layer.expert


def stage_memory(
    shape: ModelSize,
    layout: Layout,
    plan: BatchPlan,
    sequence_length: int,
    stage: int,
    *,
    precision: str,
    recompute: str,
    sequence_parallel: bool,
    shards_optimizer: bool,
) -> Memory:
    """Estimate the memory of one device of a stage.

    Activations are those of Korthikanti et al. 2022 (arXiv:2205.05198), section 4, with attention that stores no
    scores. At 2 bytes per number a token stores 10 h bytes per layer that tensor parallelism does not split, and those
    of queries, keys, values, the output of attention, and the feed-forward network before and after its activation,
    which it splits: 24 h in GPT-2's layers. Sequence parallelism splits all. Context parallelism splits the tokens, and
    gathers their keys and values. Full recomputation stores 2 h. Experts store the inputs of each of a token's
    networks, and are taken to have equal loads. A stage stores the activations of as many micro batches as there are
    stages from it on.
    """
    shared, experts = _stage_parameters(shape, layout, stage)
    parameters = shared + experts
    width, tensor = BYTES[precision], layout.tensor_parallel_size
    adam = 8 if precision == "fp32" else 12  # two moments, and a float32 copy of narrower weights
    tokens = plan.micro_batch_size * sequence_length / layout.context_parallel_size
    per_number = tokens * shape.hidden_size * width / 2
    networks = shape.ffn_hidden_size * max(1, shape.top_k) + shape.shared_ffn_size
    split = tokens * width * (shape.qkv_width + shape.query_width + shape.matrices * networks) / tensor
    if layout.context_parallel_size > 1:
        keys_and_values = shape.qkv_width - shape.query_width
        split += plan.micro_batch_size * sequence_length * width * keys_and_values / tensor
    whole = (10 + 2 * shape.top_k) * per_number
    a_layer = split + (whole / tensor if sequence_parallel else whole)
    layers = shape.num_layers // layout.pipeline_parallel_size
    in_flight = min(layout.pipeline_parallel_size - stage, plan.grad_accum_steps)
    kept, recomputed = (2 * per_number, a_layer) if recompute == "full" else (a_layer, 0.0)
    last = stage == layout.pipeline_parallel_size - 1
    # The logits in the weights' precision, and in float32 with their gradient for the loss.
    logits = tokens * shape.padded_vocab_size / tensor * (width + 8) if last else 0.0
    shards = lambda number, devices: number * adam / (devices if shards_optimizer else 1)  # noqa: E731
    return Memory(
        parameters * width,
        parameters * GRADIENT_BYTES,
        shards(shared, layout.world_size // layout.tensor_parallel_size // layout.pipeline_parallel_size)
        + shards(experts, layout.expert_replicas),
        in_flight * layers * kept + recomputed,
        logits,
    )


def describe(
    shape: ModelSize, layout: Layout, plan: BatchPlan, sequence_length: int, memory: list[Memory]
) -> list[str]:
    """Return the lines of the plan, which follow those of the layout."""
    per_token = shape.flops_per_token(sequence_length)
    tokens = plan.global_batch_size * sequence_length
    stages = range(layout.pipeline_parallel_size)
    fullest = max(stages, key=lambda stage: memory[stage].total)
    parts = ", ".join(f"{name} {value / GIB:.2f}" for name, value in vars(memory[fullest]).items())
    counts = sorted({stage_parameters(shape, layout, stage) for stage in stages})
    return [
        f"num_parameters: {shape.num_parameters}",
        *([f"num_active_parameters: {shape.num_active_parameters}"] if shape.experts else []),
        f"parameters_per_device: {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))}",
        f"tokens_per_step: {tokens}",
        f"model_flops_per_token: {per_token:.6g}",
        f"model_flops_per_step: {per_token * tokens:.6g}",
        f"memory_per_device_gib: {memory[fullest].total / GIB:.2f} estimated, on pipeline stage {fullest} ({parts})",
    ]
