"""Demand on a server: lengths of prompts and answers, and the limits of latency that requests must keep."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

PAIRS = 1024  # of log-normal lengths, taken in turn
ROLES = ("prefill", "decode")  # of nodes that read prompts, and that write answers
FEWEST_REQUESTS = 30  # fewer bound neither a 99th percentile nor a median
Lengths = Sequence[tuple[int, int]]  # input and output tokens, taken in turn


def fewest_requests(concurrency: int) -> int:
    """Return without how many requests a run does not count."""
    return max(FEWEST_REQUESTS, 2 * concurrency)


class Slo(NamedTuple):
    """Limits that a request must keep to count for goodput, in seconds; those of a percentile of all requests, too."""

    ttft_s: float
    tpot_s: float


# MLPerf Inference 6.0, inference_policies at ac93e89: limits of the 99th percentiles.
SLOS: Mapping[str, Slo] = {
    "llama-3.1-8b-server": Slo(2.0, 0.1),
    "llama-3.1-8b-interactive": Slo(0.5, 0.03),
    "llama-2-70b-server": Slo(2.0, 0.2),
    "llama-2-70b-interactive": Slo(0.45, 0.04),
    "llama-3.1-405b-server": Slo(6.0, 0.175),
    "llama-3.1-405b-interactive": Slo(4.5, 0.08),
    "deepseek-r1-server": Slo(2.0, 0.08),
    "deepseek-r1-interactive": Slo(1.5, 0.015),
    "gpt-oss-120b-server": Slo(3.0, 0.08),
    "gpt-oss-120b-interactive": Slo(2.0, 0.02),
}


def lengths_of(mean_input: int, mean_output: int, sigma: float, seed: int) -> Lengths:
    """Return the lengths of a load without a file of them.

    With a sigma, each is log-normal with that mean and shape, at least 2 tokens and at most four means.
    """
    if not sigma:
        return [(mean_input, mean_output)]
    chance = random.Random(seed)

    def length(mean: int) -> int:
        return max(2, min(4 * mean, round(chance.lognormvariate(math.log(mean) - sigma**2 / 2, sigma))))

    return [(length(mean_input), length(mean_output)) for _ in range(PAIRS)]


def arrivals_s(rate_per_s: float, burstiness: float, seed: int, until_s: float) -> Iterator[float]:
    """Yield times of arrivals from 0 on, with gamma-distributed times between them; of shape 1 they are Poisson's."""
    chance, time_s = random.Random(seed), 0.0
    while (time_s := time_s + chance.gammavariate(burstiness, 1 / (rate_per_s * burstiness))) < until_s:
        yield time_s


class MadeShape(NamedTuple):
    """Made conversations: numbers of tokens, and times in seconds; means of log-normal distributions have their name.

    The small one is for a laptop. The large one grows as coding agents do: its longest prompt fits 131072 tokens.
    """

    conversations: int
    turns: tuple[int, int]  # fewest and most
    shared: int
    mean_new: int
    mean_output: int
    mean_idle_s: float
    most_tokens: int


MADE: Mapping[str, MadeShape] = {
    "small": MadeShape(24, (4, 10), 192, 48, 16, 0.1, 1024),
    "large": MadeShape(256, (10, 60), 8192, 1500, 400, 5.0, 120_000),
}
MADE_SIGMA = 0.6  # of made lengths and idle times


def made(name: str, seed: int) -> list[dict[str, Any]]:
    """Return made conversations as their file holds them."""
    shape, chance = MADE[name], random.Random(f"{name} {seed}")

    def drawn(mean: float) -> float:
        return chance.lognormvariate(math.log(mean) - MADE_SIGMA**2 / 2, MADE_SIGMA)

    found = []
    for number in range(shape.conversations):
        requests, tokens, time_s = list[dict[str, Any]](), shape.shared, 0.0
        for _ in range(chance.randint(*shape.turns)):
            tokens, output = tokens + max(4, round(drawn(shape.mean_new))), max(4, round(drawn(shape.mean_output)))
            if tokens + output > shape.most_tokens:
                break
            requests.append({"t": round(time_s, 3), "type": "s", "model": "model", "in": tokens, "out": output})
            tokens, time_s = tokens + output, time_s + drawn(shape.mean_idle_s)
        tools = shape.shared * 3 // 4
        head = {"id": f"{name}-{number}", "block_size": 1, "hash_id_scope": "none"}
        found.append({**head, "tool_tokens": tools, "system_tokens": shape.shared - tools, "requests": requests})
    return found


def as_text(conversations: list[dict[str, Any]]) -> str:
    """Return conversations as JSON lines."""
    return "".join(f"{json.dumps(one)}\n" for one in conversations)


def digest_of(text: str) -> str:
    """Return what identifies the text of a trace."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@lru_cache(maxsize=16)
def made_trace(name: str, seed: int) -> tuple[str, list[dict[int, tuple[int, int, float]]]]:
    """Return the digest of made conversations, and of each the turns by number: lengths, and idle time in seconds."""
    found, turns = made(name, seed), list[dict[int, tuple[int, int, float]]]()
    for requests in (one["requests"] for one in found):
        next_s = [*(one["t"] for one in requests[1:]), math.inf]
        each = zip(requests, next_s, strict=True)
        turns.append({turn: (one["in"], one["out"], after_s - one["t"]) for turn, (one, after_s) in enumerate(each)})
    return digest_of(as_text(found)), turns


def hosts_of(text: str) -> dict[str, str]:
    """Return the role of each node of a server, from 'n1 n2', which have none, or 'prefill: n1; decode: n2 n3'.

    Raises ValueError for another text.
    """
    found: dict[str, str] = {}
    for part in filter(str.strip, text.split(";")):
        role, _, names = part.rpartition(":")
        for name in names.split():
            if found.setdefault(name, role.strip()) != role.strip():
                raise ValueError(f"{name} has two roles")
    if text and set(found.values()) not in ({""}, set(ROLES)):
        raise ValueError(f"it names no nodes, or not those of {' and '.join(ROLES)}")
    return found
