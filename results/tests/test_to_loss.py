"""Runs that were trained to a loss: how repeats are combined, what they are compared with, and requirements."""

from __future__ import annotations

import pytest

from record.derivation import derive
from record.model import Record
from record.part import as_json
from results.collect import collect
from results.tests import builder
from results.tests.of_dicts import by_point, compare
from results.tests.test_accept import judged
from results.verdicts.outcome import Outcome
from results.verdicts.quality import deviations, missed
from results.verdicts.ranking import ranked_points

PASSED, FAILED, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED
TARGET = 3.0
TIME, ENERGY, TOKENS = "metrics.time_to_loss_s", "energy.energy_to_loss_wh", "metrics.{unit}_to_loss"


def run(time_s: float = 60.0, seed: int = 1, target: float = TARGET, devices: int = 1, **changes):
    """A run that reached the target; its energy and tokens are as its time."""
    record = builder.result("V", devices, **changes)
    record["config"]["window"] = {"warmup_steps": 0, "to_loss": target}
    record["config"]["training"] = {"seed": seed}
    record["metrics"] |= {"target_loss": target, "reached_loss": target - 0.01}
    record["metrics"] |= {"time_to_loss_s": time_s, "tokens_to_loss": 100 * time_s}
    record["energy"]["energy_to_loss_wh"] = time_s / 36
    record["variant"] = [f"to loss {target:g}"]
    return record


def missing(seed: int = 1, **metrics):
    """A run that ended above its target."""
    record = run(seed=seed)
    record["metrics"] |= {"reached_loss": 3.4, "time_to_loss_s": None, "tokens_to_loss": None, **metrics}
    return record | {"status": "failed", "error": "the loss is 3.4", "energy": None}


def runs(*times_s: float, **changes):
    return [run(time_s, seed, **changes) for seed, time_s in enumerate(times_s)]


@pytest.mark.parametrize(
    ("times_s", "mean_s", "half_s"),
    [
        ((50.0, 60.0), 55.0, 5 * 12.706),
        ((10.0, 60.0, 500.0), 60.0, None),  # one is left
        ((10.0, 50.0, 60.0, 500.0), 55.0, 104.0),
        ((10.0, 50.0, 60.0, 70.0, 500.0), 60.0, 32.07),  # 4.303 x 10 x sqrt(5) / 3: Tukey and McLaughlin
    ],
)
def test_the_fastest_and_the_slowest_run_are_left_out(times_s, mean_s, half_s):
    [point] = by_point(runs(*times_s))
    assert len(point.good) == len(times_s)  # other seeds are repeats
    for path, factor in ((TIME, 1.0), (ENERGY, 1 / 36), (TOKENS, 100.0)):
        assert point.value(path) == pytest.approx(mean_s * factor)
        assert point.estimate(path).value == pytest.approx(mean_s * factor)
        assert (point.estimate(path).interval is None) == (half_s is None)
    if len(times_s) == 5:
        low, high = point.estimate(TIME).interval
        assert (high / low) ** 0.5 == pytest.approx(2.718281828 ** (half_s / 60.0), rel=1e-3)


@pytest.mark.parametrize(("times_s", "mean_s"), [((10.0, 50.0, 60.0, 70.0), 60.0), ((50.0,), None)])
def test_a_run_that_misses_the_loss_is_the_slowest(times_s, mean_s):
    [point] = by_point([*runs(*times_s), missing(9)])
    assert point.value(TIME) == mean_s
    if len(times_s) == 4:  # the interval is that of five runs
        [slower] = by_point(runs(*times_s, 1e6))
        assert point.estimate(TIME) == slower.estimate(TIME)


@pytest.mark.parametrize(("status", "number"), [("unfinished", 2), ("out_of_memory", 0)])
def test_a_run_to_a_loss_that_was_ended_before_missed_it(status, number):
    """A time limit ends a job without any number of the training."""
    ended = [{**missing(seed), "metrics": {}, "status": status, "error": "signal 15"} for seed in (7, 8)]
    [point] = by_point([*runs(50.0, 60.0, 70.0), *ended])
    assert (point.missed, missed(point) is not None) == (number, number > 1)


def test_a_run_that_left_no_options_is_of_the_point_of_its_job():
    reached = runs(50.0, 60.0, 70.0, slurm={"job_id": "7", "state": "TIMEOUT"})
    ended = [builder.failed("V", slurm={"job_id": "7", "state": "TIMEOUT"}) for _ in range(2)]
    points = by_point([builder.result("V"), *reached, *ended])
    assert [(bool(one.point.to_loss), len(one.bad), one.missed) for one in points] == [(False, 0, 0), (True, 2, 2)]


def test_runs_to_a_loss_with_one_seed_are_not_repeats():
    [point] = by_point([run(50.0, seed=1), run(60.0, seed=2), run(70.0, seed=2)])
    assert point.wrong.kind == "one_seed"
    assert point.wrong in deviations(point)
    [usual] = by_point([builder.result("V"), builder.result("V")])
    assert usual.wrong is None


@pytest.mark.parametrize(("number", "counts"), [(0, True), (1, True), (2, False)])
def test_more_than_one_run_that_misses_the_loss_makes_the_point_invalid(number, counts):
    later = [{**missing(9), "metrics": run()["metrics"], "error": "no energy"}]  # it reached the loss and failed then
    [point] = by_point([*runs(50.0, 60.0, 70.0), *map(missing, range(3, 3 + number)), *later])
    assert (len(point.bad), point.missed) == (number + 1, number)
    assert (point.value(TIME) is not None) == counts
    assert (missed(point) is None) == counts
    if not counts:
        assert missed(point) in deviations(point)
        assert str(missed(point)) == "2 of 6 runs did not reach the loss, at most 1 may miss it"


def test_runs_to_a_loss_are_never_with_those_of_a_fixed_window():
    """Their windows begin with the first step, and other targets are other work."""
    usual = [builder.result("V", tokens_per_s=speed) for speed in (100.0, 101.0)]
    points = by_point([*usual, *runs(50.0, 60.0), *runs(40.0, target=4.0)])
    assert sorted((one.point.to_loss, len(one.good)) for one in points) == [(0.0, 2), (3.0, 2), (4.0, 1)]
    assert [one.point.to_loss for one in ranked_points(points)] == [0.0]
    compared = compare(usual, runs(50.0, 60.0))
    assert not compared.lines
    assert [str(one) for one in compared.only_other] == [
        "llm_training, tiny, text, 2048 tokens, 1 device, global batch 8, to loss 3"
    ]
    steps = [{**run(), "step_times_s": [9.0, *[1.0] * 20]}]
    [point] = by_point(steps)
    assert not {"outliers", "few_steps"} & {one.kind for one in deviations(point)}


THREE = "what: time_to_loss_s, at_most: {}"
FIVE = runs(10.0, 59.0, 60.0, 61.0, 500.0)


@pytest.mark.parametrize(
    ("records", "item", "outcome", "value", "why"),
    [
        (FIVE, THREE.format(70), PASSED, 60.0, ""),
        (FIVE, "what: energy_to_loss_wh, at_most: 1", FAILED, 60 / 36, ""),
        ([*FIVE, *runs(*[90.0] * 5, devices=2)], f"devices: 2, {THREE.format(70)}", FAILED, 90.0, ""),
        (runs(60.0), THREE.format(70), OPEN, 60.0, "one run gives no interval"),
        ([builder.result("V")], THREE.format(70), OPEN, None, "no run was trained to a loss"),
        ([*FIVE, missing(7), missing(8)], THREE.format(70), FAILED, None, "2 of 7 runs did not reach the loss"),
        ([*FIVE, run(target=4.0)], THREE.format(70), OPEN, None, "its runs are trained to the losses 3 and 4"),
        (FIVE, "what: throughput, at_least: 1", OPEN, None, "trained to a loss: its window begins"),
    ],
)
def test_a_requirement_on_the_time_or_energy_to_a_loss(records, item, outcome, value, why, tmp_path):
    verdict = judged(tmp_path, records, item)
    assert (verdict.outcome, verdict.answer.value) == (outcome, value and pytest.approx(value, rel=1e-6))
    assert (why in verdict.reason, bool(verdict.reason)) == (True, bool(why))


def test_the_energy_to_a_loss_is_that_of_its_window_whatever_is_stored(tmp_path):
    record = run()
    record["losses"] = [9.0, *[2.99] * 10]
    found = collect(builder.store_run(tmp_path / "run", record))
    assert found["energy"]["energy_to_loss_wh"] == found["energy"]["energy_wh"] > 0
    for part, name, value in (
        ("metrics", "time_to_loss_s", 6.0),
        ("metrics", "tokens_to_loss", 1.0),
        ("metrics", "reached_loss", 2.5),
        ("energy", "energy_to_loss_wh", 1e-3),
    ):
        wrong = {**found, part: found[part] | {name: value}}
        assert as_json(derive(Record.of(wrong)))[part][name] == found[part][name]
    usual = builder.result("V")
    assert "energy_to_loss_wh" not in collect(builder.store_run(tmp_path / "usual", usual))["energy"]
