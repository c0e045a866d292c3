from __future__ import annotations

import math
from dataclasses import asdict

import pytest

from benchmarks.common.launch import Launch, node_window
from benchmarks.common.measure.measured import work_metrics
from benchmarks.common.options import ConfigError
from benchmarks.common.record import RunRecord
from benchmarks.common.session import parse_options
from benchmarks.llm_training.config import Layout, TrainingOptions
from benchmarks.llm_training.metrics import learning_rate, loss_problem
from benchmarks.llm_training.points import devices_needed
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.train import Gpt, main


@pytest.mark.parametrize("size", SIZES)
def test_every_size_can_run_in_its_own_layout(size):
    shape = SIZES[size]
    experts = shape.expert_parallel_size
    Layout(devices_needed(size), shape.tensor_parallel_size, shape.pipeline_parallel_size, 1, experts).check(shape)


@pytest.mark.parametrize(
    ("size", "layout", "message"),
    [
        ("tiny", Layout(3, 2, 1), "3 devices cannot be shared by tensor_parallel_size 2"),
        ("tiny", Layout(16, 16, 1), "tensor_parallel_size 16 does not divide the model's num_heads 8"),
        ("tiny", Layout(3, 1, 3), "pipeline_parallel_size 3 does not divide the model's num_layers 4"),
        ("tiny-llama", Layout(4, 4, 1), "4 does not divide the model's heads of keys and values 2"),
        ("tiny-llama", Layout(2, 1, 1, expert_parallel_size=2), "the model has no experts"),
        ("tiny-moe", Layout(3, 1, 1, expert_parallel_size=3), "3 does not divide the model's experts 8"),
        ("tiny-moe", Layout(6, 1, 1, expert_parallel_size=4), "does not divide the 6 devices of a pipeline stage"),
        ("tiny-llama", Layout(2, 1, 1, context_parallel_size=2), "a sequence length that is a multiple of 4, not 63"),
        ("tiny-llama", Layout(3, 1, 1, context_parallel_size=2), "x context_parallel_size 2 = 2: use a multiple"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(size, layout, message):
    with pytest.raises(ConfigError, match=message):
        layout.check(SIZES[size], 63)


def metrics_of(step_times_s, *flags, devices=1):
    run = Gpt(parse_options(Gpt, flags), Launch(world_size=devices, local_world_size=devices))
    layout = {**run.layout, "work_per_sample": run.work_per_sample}
    record = RunRecord(Gpt.name, "made up", "", "tokens", asdict(run.config), "ok", layout=layout)
    record.metrics = work_metrics(run, len(step_times_s))
    record.windows = [node_window(0.0, sum(step_times_s))]
    assert run.conclude(record, len(step_times_s) * run.work_per_step, len(step_times_s), [2.0, 1.0]) == ""
    return vars(record.derived().metrics)


KNOWN = ("--size", "800M", "--global-batch-size", "64", "--peak-tflops-per-device", "312")


def test_utilisation_of_an_unknown_peak_is_missing():
    metrics = metrics_of([1.0])
    assert (metrics.get("mfu"), metrics.get("hfu")) == (None, None)


@pytest.mark.parametrize(
    ("recompute", "flops"),
    [("none", 0), ("selective", 4 * 16 * 2048 * 2048), ("full", 24 * 16 * 2048**2 + 4 * 16 * 2048 * 2048)],
)
def test_what_is_recomputed_counts_in_hfu_alone(recompute, flops):
    # Layers and hidden size of 800M, at a sequence of 2048: a third of its terms of layers, or of attention.
    plain, again = (metrics_of([2.0], *KNOWN, "--recompute", one, devices=4) for one in ("none", recompute))
    assert again["mfu"] == plain["mfu"] == plain["hfu"]
    assert again["hfu"] == pytest.approx(plain["mfu"] * (1 + flops / plain["model_flops_per_token"]))


def test_the_forward_pass_of_lora_is_computed_again():
    known = ("--size", "llama3-8B-LoRA", "--peak-tflops-per-device", "312")
    metrics = metrics_of([1.0], *known, "--recompute", "full", devices=2)
    matrices = 32 * 4096 * (3 * 14336 + 2 * 4096 + 2 * 1024)
    forward = 2 * matrices + 4 * 32 * 4096 * 8192 + 2 * SIZES["llama3-8B-LoRA"].adapter_parameters
    assert metrics["hfu"] / metrics["mfu"] == pytest.approx(1 + forward / metrics["model_flops_per_token"], rel=1e-6)


def test_what_is_computed_again_is_about_what_the_original_suite_counts():
    metrics = metrics_of([1.0], *KNOWN, "--recompute", "full")
    # 8.1343 GFLOP a token: the same layers with a forward pass more, and the logits once.
    assert metrics["hfu"] / metrics["mfu"] == pytest.approx(8.1343e9 / 6.25528e9, rel=0.04)


@pytest.mark.parametrize(
    "losses",
    [[9.0, 8.5, 8.6, 8.1], [9.0], [9.0, 8.9], [5.0, 9.0, 9.0, 9.0, 8.0, 8.0, 8.0, 8.0, 6.9, 6.9], [9.0] * 4 + [8.0]],
)
def test_a_loss_that_falls_is_fine(losses):
    assert loss_problem(losses) == ""


@pytest.mark.parametrize(
    ("losses", "problem"),
    [
        ([9.0, math.nan], "the loss is nan in call 1: the training diverged"),
        ([9.0, -math.inf], "the loss is -inf in call 1: the training diverged"),
        ([8.0, 8.0, 8.1, 8.2], "did not fall: 8.0000 at the beginning, 8.2000 at the end"),
        ([8.0, 8.0], "did not fall: 8.0000 at the beginning, 8.0000 at the end"),
        ([7.0, 9.0, 1.0, 1.0, 1.0, 1.0, 8.5, 9.5], "did not fall: 8.0000 at the beginning, 9.0000 at the end"),
    ],
)
def test_a_loss_that_does_not_fall_is_told(losses, problem):
    assert problem in loss_problem(losses)


@pytest.mark.parametrize(
    ("step", "share"), [(0, 1.0), (250, 0.1 + 0.9 * (1 + 0.5**0.5) / 2), (500, 0.55), (1000, 0.1), (3000, 0.1)]
)
def test_the_learning_rate_falls_as_a_cosine_to_a_tenth(step, share):
    assert learning_rate(TrainingOptions(learning_rate=3e-4), step) == pytest.approx(share * 3e-4)


def test_a_run_that_took_other_tokens_than_planned_has_failed():
    run = Gpt(parse_options(Gpt, []), Launch())
    record = RunRecord(Gpt.name, "made up", "tiny", "tokens", {})
    planned = 5 * 16 * 256
    assert run.conclude(record, planned, 5, [3.0, 2.0]) == ""
    said = run.conclude(record, planned // 2, 5, [3.0, 2.0])
    assert said.startswith(f"{planned // 2} tokens were taken from the data instead of {planned}")


def test_the_whole_plan_of_a_bigger_machine_is_printed_without_it(capsys):
    assert main(["--dry-run", "--size", "800M", "--devices", "4", "--nodes", "2"]) == 0
    found = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert (found["num_devices"], found["num_nodes"], found["data_parallel_size"]) == ("8", "2", "8")
    assert (found["global_batch_size"], found["grad_accum_steps"]) == ("32", "1")
    assert (found["num_parameters"], found["tokens_per_step"]) == ("908759040", str(32 * 2048))
    assert float(found["model_flops_per_token"]) == pytest.approx(6.2553e9, rel=1e-4)
