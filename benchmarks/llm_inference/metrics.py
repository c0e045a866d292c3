"""Statistics of a client, and its requests as their file holds them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from benchmarks.llm_inference.client import Statistics
from benchmarks.llm_inference.load import Measurement
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


def from_the_start(measurement: Measurement) -> Measurement:
    """Return it with times from the window's start on, in whole microseconds: those that the file of requests holds."""

    def rounded(time_s: float) -> float:
        return round(1e6 * (time_s - measurement.start_s)) / 1e6

    requests = []
    for one in measurement.requests:
        times_s = array("d", map(rounded, one.times_s))
        due_s, sent_s, ended_s = map(rounded, (one.due_s, one.sent_s, one.ended_s))
        late_s = [round(1e6 * time_s) / 1e6 for time_s in one.late_s]
        requests.append(replace(one, due_s=due_s, sent_s=sent_s, ended_s=ended_s, times_s=times_s, late_s=late_s))
    return replace(measurement, requests=requests, start_s=0.0, end_s=rounded(measurement.end_s))


def as_json(request: Request) -> dict[str, Any]:
    """Return a request as the file of requests holds it; `arrivals_us` are the first and the steps to each next."""
    due_us, sent_us, ended_us, *arrivals = (
        round(1e6 * time_s) for time_s in (request.due_s, request.sent_s, request.ended_s, *request.times_s)
    )
    return {
        "index": request.index,
        "due_us": due_us,
        "sent_us": sent_us,
        "ended_us": ended_us,
        "arrivals_us": [arrivals[0], *(after - before for before, after in pairwise(arrivals))],
        "tokens": list(request.counts),
        "input": request.asked_input,
        "output": request.asked_output,
        "prompt_tokens": request.prompt_tokens,
        "completion_tokens": request.completion_tokens,
        "cached_tokens": request.cached_tokens,
        "retries": request.retries,
        "late_us": [round(1e6 * time_s) for time_s in request.late_s],
        "unlisted": request.unlisted,
        "is_unseen": request.is_unseen,
        **({"place": request.place._asdict()} if request.place else {}),
    }
