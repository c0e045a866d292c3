from __future__ import annotations

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.common.samples import run_problem
from benchmarks.common.session import parse_options
from benchmarks.resnet50.train import ResNet50


def test_a_batch_that_the_devices_cannot_share_is_refused():
    options = parse_options(ResNet50, ["--global-batch-size", "15"])
    with pytest.raises(ConfigError, match="global_batch_size 15 is not a multiple of the 2 devices"):
        ResNet50(options, Launch(0, 2, 0, 2))


def test_what_a_run_is_of():
    run = ResNet50(parse_options(ResNet50, ["--variant", "v2", "--global-batch-size", "64"]), Launch(0, 2, 0, 2))
    assert (run.data, run.sample, run.num_parameters, run.work_per_sample) == ("synthetic", "224 pixels", 25_549_352, 1)
    assert run.flops.per_unit == pytest.approx(3 * 8.178e9, rel=1e-3)
    assert run.flops.source == "2 x multiply-adds of all convolutions and the last layer, x 3 for training"
    assert run.layout == {
        "num_devices": 2,
        "num_nodes": 1,
        "global_batch_size": 64,
        "micro_batch_size": 32,
        "data_parallel_size": 2,
        "image_size": 224,
    }


@pytest.mark.parametrize(
    ("losses", "read", "damaged", "problem"),
    [
        ([6.9, 6.8], 10_000, 10, ""),
        ([6.9, 6.8], 0, 0, ""),
        ([6.9, float("nan")], 0, 0, "the loss is nan in call 1"),
        ([6.9, 6.8], 10_000, 11, "11 of 10000 records could not be used"),
    ],
)
def test_a_run_that_diverged_or_read_damaged_data_says_so(losses, read, damaged, problem):
    said = run_problem(losses, read, damaged, "damaged")
    assert said.startswith(problem)
    assert bool(said) == bool(problem)
