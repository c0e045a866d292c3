"""Joules per token of a server whose power per stream is known, as the sampler reads them."""

from __future__ import annotations

import random

import pytest

from benchmarks.llm_inference.tests.simulated import closed_loop
from jpwr.tests.loads import Load, channel, levels, moments
from record.demand import Slo
from record.parts import JOULES_PER_WH
from record.served import Window, metrics_of
from results.join.serving import energy_per_token

pytestmark = pytest.mark.arithmetic
IDLE_W, PREFILL_W, DECODE_W = 60.0, 90.0, 35.0  # of the device, and of each stream before and after its first token
RUNS, FEWEST_HELD, AROUND_S, STREAMS = 50, 46, 1.0, 4


def load_of(window: Window) -> Load:
    """Power of the requests that run, from the first one on."""
    changes = [(0.0, IDLE_W)]
    for one in window.every:
        changes += [
            (one.sent_s, PREFILL_W),
            (one.times_s[0], DECODE_W - PREFILL_W),
            (one.ended_s, -DECODE_W),
        ]
    edges_s, powers_w = [], [0.0]
    for time_s, change_w in sorted(changes):
        edges_s.append(time_s)
        powers_w.append(powers_w[-1] + change_w)
    return levels([*edges_s, edges_s[-1] + AROUND_S], powers_w[1:])


@pytest.mark.parametrize("interval_s", [0.1, 0.25])
def test_joules_per_token_are_within_their_interval(interval_s):
    held = 0
    for seed in range(RUNS):
        window, chance = closed_loop(STREAMS, 400, noise=0.2, seed=seed), random.Random(seed)
        load = load_of(window)
        times_s = moments(chance, window.start_s - 0.1, window.end_s + 0.1, interval_s)
        estimate = channel(times_s, load.power_w).between(window.start_s, window.end_s)
        record = {
            "metrics": metrics_of(window, 1, Slo(1.0, 1.0, "")),
            "energy": {
                "energy_wh": estimate.energy_j / JOULES_PER_WH,
                "uncertainty_wh": estimate.uncertainty_j / JOULES_PER_WH,
            },
        }
        found, tokens = energy_per_token(record), sum(count for _, count in window.output_tokens())
        true_j = load.between_j(window.start_s, window.end_s) / tokens
        held += abs(found["j_per_output_token"] - true_j) <= found["j_per_output_token_half_width"]
        assert found["j_per_output_token_half_width"] < 0.1 * true_j
    assert held >= FEWEST_HELD
