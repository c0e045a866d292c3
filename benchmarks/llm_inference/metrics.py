"""Statistics of a client, and its requests as their file holds them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from benchmarks.llm_inference.client import Statistics
from jpwr.median import percentile
from record.served import Metrics, Request


def client_metrics(of_processes: Iterable[Statistics]) -> Metrics:
    """Return what the client cost, and how late it read: upper bounds of the delay of events, over all processes."""
    every = list(of_processes)
    delays_s = sorted(one for process in every for one in process.delays_s)
    tokens = sum(one.tokens for one in every)
    return {
        "client_processes": len(every),
        "client_delay_p50_s": percentile(delays_s, 50) if delays_s else None,
        "client_delay_p99_s": percentile(delays_s, 99) if delays_s else None,
        "client_cpu_us_per_token": 1e6 * sum(one.cpu_s for one in every) / tokens if tokens else None,
        "client_reconnects": sum(one.reconnects for one in every),
    }


def as_json(request: Request, start_s: float) -> dict[str, Any]:
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
