"""Demand on a server: lengths of prompts and answers, and the limits of latency that requests must keep."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import NamedTuple

PAIRS = 1024  # of log-normal lengths, taken in turn


class Slo(NamedTuple):
    """Limits that a request must keep to count for goodput, in seconds; those of a percentile of all requests, too."""

    ttft_s: float
    tpot_s: float
    source: str


MLPERF = "MLPerf Inference 6.0, inference_policies at ac93e89: limits of the 99th percentiles"
SLOS: Mapping[str, Slo] = {
    "llama-3.1-8b-server": Slo(2.0, 0.1, MLPERF),
    "llama-3.1-8b-interactive": Slo(0.5, 0.03, MLPERF),
    "llama-2-70b-server": Slo(2.0, 0.2, MLPERF),
    "llama-2-70b-interactive": Slo(0.45, 0.04, MLPERF),
    "llama-3.1-405b-server": Slo(6.0, 0.175, MLPERF),
    "llama-3.1-405b-interactive": Slo(4.5, 0.08, MLPERF),
    "deepseek-r1-server": Slo(2.0, 0.08, MLPERF),
    "deepseek-r1-interactive": Slo(1.5, 0.015, MLPERF),
    "gpt-oss-120b-server": Slo(3.0, 0.08, MLPERF),
    "gpt-oss-120b-interactive": Slo(2.0, 0.02, MLPERF),
}


def log_normal_lengths(mean_input: int, mean_output: int, sigma: float, seed: int) -> list[tuple[int, int]]:
    """Return pairs of lengths, each log-normal with that mean and shape, at least 2 tokens and at most four means."""
    chance = random.Random(seed)

    def length(mean: int) -> int:
        return max(2, min(4 * mean, round(chance.lognormvariate(math.log(mean) - sigma**2 / 2, sigma))))

    return [(length(mean_input), length(mean_output)) for _ in range(PAIRS)]
