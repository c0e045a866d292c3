"""Requests as their file holds them, and what the server counted."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from benchmarks.llm_inference.config import Config
from benchmarks.llm_inference.servers import SERVERS
from record.arithmetic import ratio
from record.asked import acceptance_length
from record.served import Request, Window

REQUESTS_FORMAT = 2  # of a file of requests, which ends with a line on its run


def by_the_server(
    config: Config, begin: Mapping[str, float | None], end: Mapping[str, float | None], window: Window
) -> tuple[float | None, dict[str, Any], float | None]:
    """Return the tokens generated in the window, the facts of speculation, and steps with drafts that none declares.

    All are by the server's counters at the window's edges. A server without a counter of accepted tokens generates one
    with a request's prompt, and one in each step.
    """
    program, options = SERVERS[config.serve.server], config.speculation
    changes = ((name, begin[name], end[name]) for name in program.counters)
    moved = {name: last - first for name, first, last in changes if first is not None and last is not None}
    tokens, steps, accepted = (moved.get(name) for name in (program.counter, program.steps, program.accepted))
    if not options.draft_tokens:
        return tokens, {}, steps or moved.get(program.proposed)
    if not program.steps:
        steps = ratio(moved.get(program.proposed), options.draft_tokens)
    if not program.accepted and tokens is not None and steps is not None:
        accepted = max(0.0, tokens - sum(window.holds(one.ended_s) for one in window.every) - steps)
    if tokens is None and steps is not None and accepted is not None:
        tokens = sum(window.holds(one.times_s[0]) for one in window.every) + steps + accepted
    facts = {
        "draft_tokens": options.draft_tokens,
        "stated_length": options.stated,
        "steps": steps,
        "accepted_tokens": accepted,
        "measured_length": acceptance_length(steps, accepted),
    }
    return tokens, facts, None


def request_line(request: Request, start_s: float) -> dict[str, Any]:
    """Return a request as the file of requests holds it, its times in microseconds from the window's start on.

    `arrivals_us` are the first and the steps to each next. The metrics are computed from what the file holds.
    """
    due_us, sent_us, ended_us, *arrivals = (
        round(1e6 * (time_s - start_s)) for time_s in (request.due_s, request.sent_s, request.ended_s, *request.times_s)
    )
    names = "prompt_tokens", "completion_tokens", "cached_tokens", "retries", "unlisted", "is_unseen"
    return {
        "index": request.index,
        "due_us": due_us,
        "sent_us": sent_us,
        "ended_us": ended_us,
        "arrivals_us": [arrivals[0], *(after - before for before, after in pairwise(arrivals))],
        "tokens": list(request.counts),
        "input": request.asked_input,
        "output": request.asked_output,
        "late_us": [round(1e6 * time_s) for time_s in request.late_s],
        **{name: getattr(request, name) for name in names},
        **({"place": request.place._asdict()} if request.place else {}),
    }


def end_line(requests: int, status: str, error: str, answers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the last line of a file of requests: its format, the status of the run, and its answers if it has some."""
    end = {"format": REQUESTS_FORMAT, "requests": requests, "status": status, "error": error}
    return {**end, "answers": answers} if answers else end
