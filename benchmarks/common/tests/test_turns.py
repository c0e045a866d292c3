"""Turns on a made-up clock, so that every number is known."""

from __future__ import annotations

import pytest
from scipy import stats

from benchmarks.common.launch import node_window
from benchmarks.common.measure.turns import Turns, effective_metrics, measure_in_turns
from benchmarks.common.record import EFFECTIVE, MEASURED
from jpwr.median import median_interval


class Machine:
    """A clock, and a device that works while the host goes on."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.device_free_s = 0.0

    def launch(self, work_s: float) -> None:
        self.device_free_s = max(self.now_s, self.device_free_s) + work_s

    def synchronize(self) -> None:
        self.now_s = max(self.now_s, self.device_free_s)


class MadeFeed:
    """Batches take some time of the host, steps some of the device; the first calls after a turn find them ready."""

    def __init__(self, machine: Machine, input_s: float, step_s: float, ready: int = 0) -> None:
        self.machine, self.input_s, self.step_s, self.ready = machine, input_s, step_s, ready
        self.ahead = 0

    def take(self) -> None:
        if self.ahead:
            self.ahead -= 1
        else:
            self.machine.now_s += self.input_s

    def step(self, batch: None) -> None:
        self.machine.launch(self.step_s)

    def call(self) -> None:
        self.step(self.take())


def measured(settling_calls=0, ready=0, input_s=0.3, rounds=6):
    machine = Machine()
    compute, effective = MadeFeed(machine, 0.0, 0.2), MadeFeed(machine, input_s, 0.25)
    turns, edges = Turns(calls_per_block=10), []

    def before_effective():
        effective.ahead = ready

    done = list(
        measure_in_turns(
            compute,
            effective,
            turns,
            rounds,
            settling_calls,
            lambda: machine.now_s,
            machine.synchronize,
            before_effective,
            lambda edge, kind, time_s: edges.append((edge, kind, time_s)),
        )
    )
    return turns, edges, done


def test_blocks_alternate_and_have_their_true_times():
    turns, edges, done = measured(rounds=2)
    assert done == [1, 2]
    assert [block.kind for block in turns.blocks] == [MEASURED, EFFECTIVE] * 2
    assert edges == [
        edge
        for block in turns.blocks
        for edge in (("begin", block.kind, block.start_s), ("end", block.kind, block.end_s))
    ]
    assert turns.durations_s(MEASURED) == pytest.approx([2.0, 2.0])
    # Input and step overlap: the input is the slower of the two, and the last step comes after it.
    assert turns.durations_s(EFFECTIVE) == pytest.approx([3.25, 3.25])


def test_steps_that_are_waited_for_tell_the_wait_from_the_step():
    turns, _, _ = measured(rounds=1)
    assert turns.compute_steps_s == pytest.approx([0.2] * 10)
    assert turns.effective_steps_s == pytest.approx([0.25] * 10)
    assert turns.waits_s == pytest.approx([0.3] * 10)


def test_batches_made_ahead_in_the_other_turn_are_used_up_before_the_clock_starts():
    flattered, _, _ = measured(ready=4)
    honest, _, _ = measured(ready=4, settling_calls=4)
    assert flattered.durations_s(EFFECTIVE)[0] < 3.0
    assert honest.durations_s(EFFECTIVE)[0] == pytest.approx(3.25)


def test_metrics_of_turns_that_are_all_different():
    durations_s = [(2.0, 4.0), (3.0, 5.0), (2.0, 6.0), (5.0, 5.0), (1.0, 4.0), (9.0, 10.0), (4.0, 7.0)]
    turns = Turns(calls_per_block=3, compute_steps_s=[0.1, 0.4, 0.2, 0.9], effective_steps_s=[0.6, 0.3, 0.8, 2.0])
    now_s = 0.0
    for pair in durations_s:
        for kind, duration_s in zip((MEASURED, EFFECTIVE), pair, strict=True):
            turns.blocks.append(node_window(now_s, now_s + duration_s, kind))
            now_s += duration_s
    ratios = sorted(compute / effective for compute, effective in durations_s)
    read = {"input_bytes": 82.0, "input_images": 41.0, "input_reading_s": 3.0, "input_decoding_s": 1.0}
    metrics = effective_metrics("image", 2 * 32, turns, sum(turns.durations_s(EFFECTIVE)), 0.25, read)
    assert metrics == {
        "effective_images": 7 * 3 * 2 * 32,
        "effective_over_compute": pytest.approx(ratios[3]),
        "effective_over_compute_low": pytest.approx(ratios[0]),
        "effective_over_compute_high": pytest.approx(ratios[6]),
        "effective_over_compute_pairs": 7,
        "input_wait_share": 0.25,
        "input_wait_percent": 25.0,
        "step_slowdown": pytest.approx(0.7 / 0.3),
        "input_bytes_per_s": pytest.approx(2.0),
        "input_images_per_s": pytest.approx(1.0),
        "input_reading_percent": 75.0,
        "input_decoding_percent": 25.0,
    }


def test_the_interval_of_a_median_is_that_of_the_binomial_distribution():
    assert median_interval(range(5)) == (None, None)
    assert median_interval(range(6), confidence=1 - 2 / 2**6) == (0, 5)
    assert median_interval(range(30)) == (9, 20)  # Conover 1999, table A3: the 10th value of either end
    assert median_interval(list(range(9))) == (1, 7)
    for count in (6, 20, 100, 400):
        low = max(i for i in range(count // 2) if 2 * stats.binom.cdf(i, count, 0.5) <= 0.05)
        assert median_interval(range(count)) == (low, count - 1 - low)
