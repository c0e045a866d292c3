"""Plan of a run before it starts: layout, batch arithmetic, parameters, FLOPs and memory of a device."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.llm_training.config import Layout, ModelSize
from benchmarks.llm_training.metrics import gpt_flops_per_token

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
    """Return the number of parameters on one device of a pipeline stage.

    Tensor parallelism splits matrices with the biases of their outputs; norms, and biases that are added after a sum
    over devices, are on each device. The first and the last stage both have the tied embedding.
    """
    h, f, tensor = shape.hidden_size, shape.ffn_hidden_size, layout.tensor_parallel_size
    stages = layout.pipeline_parallel_size
    shared_out = (3 * h * h + 3 * h) + h * h + (h * f + f) + f * h  # attention in and out, feed-forward in and out
    on_each = h + h + 4 * h  # biases of the two outputs, two norms
    found = shape.num_layers // stages * (shared_out // tensor + on_each)
    if stage in (0, stages - 1):
        found += shape.padded_vocab_size // tensor * h
    if stage == stages - 1:
        found += 2 * h  # the last norm
    return found


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
    scores: s b h (10 + 24/t) bytes per layer at 2 bytes per number, s b h 34/t with sequence parallelism, s b h 2 with
    full recomputation. A stage stores those of as many micro batches as there are stages from it on.
    """
    parameters = stage_parameters(shape, layout, stage)
    width, tensor = BYTES[precision], layout.tensor_parallel_size
    adam = 8 if precision == "fp32" else 12  # two moments, and a float32 copy of narrower weights
    tokens = plan.micro_batch_size * sequence_length
    per_number = tokens * shape.hidden_size * width / 2
    a_layer = per_number * (34 / tensor if sequence_parallel else 10 + 24 / tensor)
    layers = shape.num_layers // layout.pipeline_parallel_size
    in_flight = min(layout.pipeline_parallel_size - stage, plan.grad_accum_steps)
    kept, recomputed = (2 * per_number, a_layer) if recompute == "full" else (a_layer, 0.0)
    last = stage == layout.pipeline_parallel_size - 1
    # The logits in the weights' precision, and in float32 with their gradient for the loss.
    logits = tokens * shape.padded_vocab_size / tensor * (width + 8) if last else 0.0
    return Memory(
        parameters * width,
        parameters * GRADIENT_BYTES,
        parameters * adam / (layout.data_parallel_size if shards_optimizer else 1),
        in_flight * layers * kept + recomputed,
        logits,
    )


def describe(
    shape: ModelSize, layout: Layout, plan: BatchPlan, sequence_length: int, memory: list[Memory]
) -> list[str]:
    """Return the lines of the plan, which follow those of the layout."""
    per_token = gpt_flops_per_token(shape.num_layers, shape.hidden_size, sequence_length, shape.padded_vocab_size)
    tokens = plan.global_batch_size * sequence_length
    stages = range(layout.pipeline_parallel_size)
    fullest = max(stages, key=lambda stage: memory[stage].total)
    parts = ", ".join(f"{name} {value / GIB:.2f}" for name, value in vars(memory[fullest]).items())
    counts = sorted({stage_parameters(shape, layout, stage) for stage in stages})
    return [
        f"num_parameters: {shape.num_parameters}",
        f"parameters_per_device: {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))}",
        f"tokens_per_step: {tokens}",
        f"model_flops_per_token: {per_token:.6g}",
        f"model_flops_per_step: {per_token * tokens:.6g}",
        f"memory_per_device_gib: {memory[fullest].total / GIB:.2f} estimated, on pipeline stage {fullest} ({parts})",
    ]
