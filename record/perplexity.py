"""Perplexity of a text, from the most likely tokens that a server lists at each place of it.

A server lists the log-probabilities of its most likely next tokens, and not that of any token. All others are taken to
share the rest of the probability evenly. This is a distribution itself, so that its logarithmic score is a proper one
(Gneiting and Raftery 2007, doi:10.1198/016214506000001437). It differs from the model's own perplexity, and is compared
only with that of the same text and the same number of listed tokens.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from record.csv_rows import csv_rows
from record.findings import Finding, finding

REFERENCES = Path(__file__).with_suffix(".csv")
# Of the reference's likelihood of a token, and its inverse: MLPerf Inference 6.0, inference_policies at ac93e89, most
# workloads.
LEAST_LIKELIHOOD = 0.99
MOST_LISTED = 1.01  # sum of listed probabilities, which are rounded
LEAST_REST = 1e-9  # of the probability, for the tokens that are not listed: rounding may leave less than nothing


@cache
def references() -> Mapping[tuple[str, str], float]:
    """Return the perplexity of the suite's text by model and precision, each of an own run."""
    return {(row["model"], row["precision"]): float(row["perplexity"]) for row in csv_rows(REFERENCES)}


def reference_of(model: str, precision: str, given: float) -> float | None:
    """Return the reference: the suite's own, if it has one of the model, or the given one; None for 0."""
    return references().get((model, precision)) or given or None


def perplexity(places: Sequence[tuple[int, Sequence[float]]], vocabulary: int) -> float:
    """Return the perplexity over places of a text; each has the listed log-probabilities, and which one is the text's.

    That is -1 for a token that is not listed.
    """
    return math.exp(-statistics.fmean(_logprob(at, listed, vocabulary) for at, listed in places))


def _logprob(at: int, listed: Sequence[float], vocabulary: int) -> float:
    if at >= 0:
        return listed[at]
    rest = max(LEAST_REST, 1 - math.fsum(map(math.exp, listed)))
    return math.log(rest / max(1, vocabulary - len(listed)))


def facts_of_text(stored: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the numbers of a run's text, as its file has it: no perplexity if the server could not be asked.

    Nor if the probabilities that it lists at a place are more than all there are.
    """
    if stored is None:
        return {}
    places, reference = stored["places"], stored["reference"]
    found: dict[str, float] = {"perplexity_tokens": len(places)}
    if places and max(math.fsum(map(math.exp, listed)) for _, listed in places) <= MOST_LISTED:
        found["perplexity"] = perplexity(places, stored["vocabulary"])
        found |= {"perplexity_reference": reference} if reference else {}
    return found


def judged_text(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield why a server's weights or arithmetic are wrong, and a remark on what could not be checked."""
    found, reference = facts.get("perplexity"), facts.get("perplexity_reference")
    if found is None:
        if "perplexity_tokens" in facts:
            yield finding("perplexity_unknown")
    elif reference is None:
        yield finding("perplexity_unjudged", perplexity=found)
    elif not LEAST_LIKELIHOOD <= (likelihood := reference / found) <= 1 / LEAST_LIKELIHOOD:
        ends = {"least": LEAST_LIKELIHOOD, "most": 1 / LEAST_LIKELIHOOD}
        yield finding("perplexity_differs", perplexity=found, reference=reference, likelihood=likelihood, **ends)
