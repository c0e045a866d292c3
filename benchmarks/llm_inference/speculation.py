"""Speculative decoding at a stated acceptance: its options, and what the server's counters say of it.

Random tokens are no text that a draft model foresees. The server therefore accepts drafts by chance, at a stated mean,
so that they cost what they cost and their use is no luck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from benchmarks.common.options import ConfigError, option
from benchmarks.llm_inference.servers import Program
from record.acceptance import length_of, published, stated
from record.derived import ratio

MODELS = tuple(dict.fromkeys(model for model, _ in published()))


@dataclass(frozen=True)
class SpeculationOptions:
    """Speculative decoding."""

    draft_tokens: int = option(
        0, "tokens that a draft model proposes in a step, of which a stated number is accepted; 0: no speculation"
    )
    acceptance_length: float = option(
        0.0, "mean tokens of a step, the model's own included; 0: the published number of --acceptance-of"
    )
    acceptance_of: str = option(MODELS[0], "model whose published acceptance length is stated", MODELS)
    draft_model: str = option("", "with --model-path or --real-weights: the draft model, which fits the model")

    def __post_init__(self) -> None:
        if self.draft_tokens < 0:
            raise ConfigError(f"draft_tokens must be 0 or more, got {self.draft_tokens}")
        if not self.draft_tokens:
            if self.acceptance_length or self.draft_model:
                raise ConfigError("--acceptance-length and --draft-model need --draft-tokens: give their number, too")
            return
        if not 1 <= self.stated[0] <= self.draft_tokens + 1:
            raise ConfigError(
                f"--acceptance-length {self.stated[0]:g} is no mean of a step with {self.draft_tokens} draft tokens: "
                f"give one from 1 to {self.draft_tokens + 1}"
            )

    @cached_property
    def stated(self) -> tuple[float, str]:
        """Return the stated acceptance length with its source; raises ConfigError if none is published."""
        try:
            return stated(self.draft_tokens, self.acceptance_length, self.acceptance_of)
        except LookupError as error:
            known = ", ".join(str(count) for model, count in published() if model == self.acceptance_of)
            raise ConfigError(
                f"--draft-tokens {self.draft_tokens}: of {self.acceptance_of} acceptance lengths are published for "
                f"{known}: choose one of them, or give --acceptance-length"
            ) from error


def facts_of_speculation(
    options: SpeculationOptions,
    program: Program,
    change: Callable[[str], float | None],
    generated: float | None,
    ended: int,
) -> dict[str, Any]:
    """Return what a record has of speculation; empty without it.

    `change` gives by how much a counter moved over the window, in which the server generated so many tokens by its own
    count, and so many requests ended. A server without a counter of accepted tokens generates one with a request's
    prompt, and one in each step.
    """
    if not options.draft_tokens:
        return {}
    steps = change(program.steps) if program.steps else ratio(change(program.proposed), options.draft_tokens)
    accepted = change(program.accepted)
    if not program.accepted and generated is not None and steps is not None:
        accepted = max(0.0, generated - ended - steps)
    length, source = options.stated
    return {
        "method": program.speculation,
        "draft_tokens": options.draft_tokens,
        "stated_length": length,
        "source": source,
        "steps": steps,
        "accepted_tokens": accepted,
        "measured_length": length_of(steps, accepted),
    }
