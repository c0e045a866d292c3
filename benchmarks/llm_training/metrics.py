"""FLOPs of the model, learning rate, and check of the losses."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi

from benchmarks.llm_training.config import TrainingOptions

DECAY_STEPS = 1000  # of the learning rate
FLOPS_SOURCE = "Narayanan et al. 2021, arXiv:2104.04473, section 5.1, without the recomputed forward pass"


def gpt_flops_per_token(num_layers: int, hidden_size: int, sequence_length: int, vocab_size: int) -> float:
    """Model FLOPs to train on one token: forward and backward, nothing recomputed.

    Narayanan et al. 2021 (arXiv:2104.04473), section 5.1, without its recomputed forward pass. It assumes a
    feed-forward size of 4 x hidden_size, and counts attention in full, although half of it is masked.
    """
    l, h, s, v = num_layers, hidden_size, sequence_length, vocab_size  # noqa: E741 - the paper's names
    return 72 * l * h**2 * (1 + s / (6 * h) + v / (12 * l * h))


def recomputed_flops_per_token(num_layers: int, hidden_size: int, sequence_length: int, recompute: str) -> float:
    """Return the FLOPs to recompute the forward pass for one token: of all layers (`full`) or attention (`selective`).

    The terms are those of gpt_flops_per_token, a third of which are the forward pass.
    """
    l, h, s = num_layers, hidden_size, sequence_length  # noqa: E741 - the paper's names
    return {"none": 0.0, "selective": 4.0 * l * h * s, "full": 24.0 * l * h**2 * (1 + s / (6 * h))}[recompute]


def loss_problem(losses: Sequence[float]) -> str:
    """Return why the losses are not those of a model that learns, or an empty string.

    The mean over the last quarter of the steps must be below the mean over the first quarter.
    """
    for step, loss in enumerate(losses):
        if not abs(loss) < float("inf"):
            return f"the loss is {loss} in step {step}: the training diverged"
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
