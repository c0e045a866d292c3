"""Speculative decoding at a stated acceptance: published lengths, and whether a server's counters agree with one.

The acceptance length is the mean number of tokens of a step: the draft tokens that are accepted, and the model's own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from record.files import csv_rows
from record.findings import Finding, finding
from record.served import MOST_UNLIKE_COUNT, Window

PUBLISHED = Path(__file__).with_suffix(".csv")
FEW_IN_EVENT = 1.25  # tokens, of a server that generates one in a step; a busy one joins some
JOINED = 3  # of two joined steps of more than half of the possible tokens, more than 1 in 3 have more than one can
MOST_OF_STEP = 1.05  # tokens of an event to those of a step, whose last one in an answer is cut
MOST_UNLIKE_STEPS = 0.1  # of tokens, by counters that are read a little later
SIGMAS = 3  # standard deviations of a mean by chance, of which 1 in 370 is beyond


@cache
def published() -> Mapping[tuple[str, int], tuple[float, str]]:
    """Return the published acceptance length with its source, by model and number of draft tokens."""
    return {
        (row["model"], int(row["draft_tokens"])): (float(row["length"]), f"{row['model']}: {row['source']}")
        for row in csv_rows(PUBLISHED)
    }


def stated(draft_tokens: int, length: float, model: str) -> tuple[float, str]:
    """Return the stated acceptance length with its source: `length`, or for 0 the published one; 0 if none is."""
    return (length, "stated by the user") if length else published().get((model, draft_tokens), (0.0, "nobody"))


def length_of(steps: float | None, accepted_tokens: float | None) -> float | None:
    """Return the acceptance length that counters give; 1 without any step, None without counters."""
    if steps is None or accepted_tokens is None:
        return None
    return 1 + accepted_tokens / steps if steps else 1.0


def judged_acceptance(facts: Mapping[str, Any], tokens_per_request: float) -> Iterator[Finding]:
    """Yield what limits a run whose server accepts a stated number of tokens: the facts are its record's."""
    if not facts:
        return
    yield finding("answers_synthetic")
    length, measured = facts["stated_length"], facts["measured_length"]
    if measured is None:
        yield finding("acceptance_unknown", stated=length)
        return
    # A step accepts 0 to all draft tokens: Bhatia and Davis 2000, Am. Math. Monthly 107, 353, bound its variance.
    drafts, steps = facts["draft_tokens"], facts["steps"]
    variance = max(0.0, (length - 1) * (drafts + 1 - length))
    most = MOST_UNLIKE_COUNT * length + (SIGMAS * math.sqrt(variance / steps) if steps else 0.0)
    if measured < length:  # the last step of a request is cut where its answer ends, by all draft tokens at most
        most += drafts * length / tokens_per_request if tokens_per_request else 0.0
    if abs(measured - length) > most:
        yield finding("acceptance_differs", measured=measured, stated=length, most=most)


def judged_events(facts: Mapping[str, Any], window: Window, undeclared_steps: object = None) -> Iterator[Finding]:
    """Yield what the events of requests contradict: the facts of speculation, or that there is none.

    `undeclared_steps` are those with drafts of a server without speculation, by its counter.
    """
    events = [count for one in window.requests for count in one.counts[1:]]
    mean = statistics.fmean(events) if events else 1.0
    if not facts:
        if undeclared_steps:
            yield finding("speculation_undeclared", steps=undeclared_steps)
        elif mean > FEW_IN_EVENT:
            yield finding("events_of_several", mean=mean)
    if not facts or facts["measured_length"] is None:
        return
    measured, most = facts["measured_length"], facts["draft_tokens"] + 1
    # A busy server or client joins the tokens of two steps in an event, of which some then have more than a step can.
    joined = sum(count > most for count in events) / max(1, len(events))
    if 2 * measured > most and mean > measured * (1 + JOINED * joined) * MOST_OF_STEP:
        yield finding("events_differ", mean=mean, measured=measured)
    # The first token of an answer is its prompt's. Counters of whole requests miss those in flight at an edge.
    later = sum(count for _, count in window.output_tokens())
    later -= sum(one.counts[0] for one in window.every if window.holds(one.times_s[0]))
    counted = facts["steps"] * measured
    in_flight = window.in_flight(window.start_s, window.end_s) * statistics.fmean(one.tokens for one in window.requests)
    if abs(later - counted) > MOST_UNLIKE_STEPS * later + in_flight:
        yield finding("steps_differ", later=later, counted=counted)
