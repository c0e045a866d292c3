"""What makes a run on files, or on labels that cannot be learnt, one that is not good."""

from __future__ import annotations

from collections.abc import Sequence

MAX_DAMAGED = 0.001  # of the records that were read


def run_problem(losses: Sequence[float], read: int, damaged: int, damage: str) -> str:
    """Why the run is not a good one, or an empty string; `damage` is what makes a record one that cannot be used.

    Random labels cannot be learnt in a few steps: what can be told of the loss is that nothing diverged.
    """
    bad = next((call for call, loss in enumerate(losses) if not abs(loss) < float("inf")), None)
    if bad is not None:
        return f"the loss is {losses[bad]} in call {bad}: the training diverged"
    if damaged > MAX_DAMAGED * read:
        return f"{damaged} of {read} records could not be used ({damage}), more than {MAX_DAMAGED:.1%}: check the data"
    return ""
