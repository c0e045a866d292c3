"""Requests of a server whose times are known, in a closed loop, without a server or a clock."""

from __future__ import annotations

import heapq
import math
import random
from array import array

from record.served import Request, Window

TTFT_S, TPOT_S, OUTPUT = 0.05, 0.01, 16
SHARED_S = 0.5  # for which the state of the machine stays about the same: two to three requests


def closed_loop(
    streams: int,
    requests: int,
    noise: float = 0.0,
    seed: int = 0,
    stagger: bool = True,
    per_chunk: int = 1,
    shared: float = 0.0,
    rate_per_s: float = 0.0,
) -> Window:
    """Return a window of that many requests at least, all of one length; times are log-normal around medians.

    `shared` is a further noise, which all requests of about the same time share, as on a machine with other load.
    """
    chance, found = random.Random(seed), Window([], 0.0, 0.0, streams, rate_per_s)
    state, state_s = chance.gauss(0, shared), 0.0
    alone_s = TTFT_S + TPOT_S * (OUTPUT - 1)
    due = [(alone_s * slot / streams if stagger else 0.0, slot) for slot in range(streams)]
    heapq.heapify(due)
    while True:
        sent_s, slot = heapq.heappop(due)
        if len(found.every) == 2 * streams:
            found.start_s = sent_s
        if len(found.every) == 2 * streams + requests:
            found.end_s = sent_s
        if len(found.every) == 4 * streams + requests:
            return found
        kept = math.exp((state_s - sent_s) / SHARED_S)
        state, state_s = kept * state + math.sqrt(1 - kept**2) * chance.gauss(0, shared), sent_s
        first_s = sent_s + TTFT_S * chance.lognormvariate(state, noise)
        step_s = TPOT_S * chance.lognormvariate(state, noise)
        counts = [min(per_chunk, OUTPUT - at) for at in range(0, OUTPUT, per_chunk)]
        times_s = [first_s + step_s * at for at in range(0, OUTPUT, per_chunk)]
        request = Request(len(found.every), slot, sent_s, sent_s, 32, OUTPUT)
        request.times_s, request.counts = array("d", times_s), array("H", counts)
        request.ended_s, request.prompt_tokens, request.completion_tokens = times_s[-1], 32, OUTPUT
        found.every.append(request)
        heapq.heappush(due, (times_s[-1], slot))
