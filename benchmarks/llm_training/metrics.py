"""Learning rate, recomputed work, and check of the losses."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi

from benchmarks.common.samples import divergence
from benchmarks.llm_training.config import ModelOptions, TrainingOptions

DECAY_STEPS = 1000  # of the learning rate


def loss_problem(losses: Sequence[float]) -> str:
    """Return why the losses are not those of a model that learns, or an empty string.

    The mean over the last quarter of the steps must be below the mean over the first quarter.
    """
    if diverged := divergence(losses):
        return diverged
    quarter = max(1, len(losses) // 4)
    first = sum(losses[:quarter]) / quarter
    last = sum(losses[-quarter:]) / quarter
    if len(losses) > 1 and not last < first:
        return f"the loss did not fall: {first:.4f} at the beginning, {last:.4f} at the end: the model does not learn"
    return ""


def learning_rate(options: TrainingOptions, step: int) -> float:
    """Return the learning rate of a step: a cosine from the highest to a tenth over DECAY_STEPS, then constant."""
    lowest = options.learning_rate / 10
    return lowest + (options.learning_rate - lowest) * (1 + cos(pi * min(step / DECAY_STEPS, 1))) / 2


def recomputed_share(model: ModelOptions, flops_per_token: float, recompute: str) -> float:
    """Return the FLOPs to recompute the forward pass, as a share of the model FLOPs.

    The forward pass is a third of them, and of the frozen products of LoRA half. `full` recomputes all layers, without
    the output's product; `selective` recomputes attention, 4 x layers x width x sequence.
    """
    shape = model.shape
    output = 2 * shape.padded_vocab_size * shape.hidden_size
    attention = 4 * shape.num_layers * shape.num_heads * shape.head_width * model.tokens_per_sample
    forward = flops_per_token / 3
    if shape.adapted:
        trained = 6 * shape.adapter_parameters + 3 * attention
        forward = (flops_per_token - trained) / 2 + trained / 3
    recomputed = {"none": 0.0, "selective": attention, "full": forward - output}[recompute]
    return recomputed / flops_per_token
