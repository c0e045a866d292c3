"""The plan of a run against the real model: parameters and FLOPs."""

from __future__ import annotations

import json

import pytest

from benchmarks.common.tests import forked
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.plan import stage_parameters
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.train import main

pytestmark = pytest.mark.long


def count(*arguments: str, ranks: int = 0) -> dict:
    done = forked.run("benchmarks.llm_training.tests.count_parameters", *arguments, ranks=ranks)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_planned_parameters_are_those_of_the_real_model_on_every_rank(imported):
    tensor, pipeline = 2, 2
    found = count("tiny", str(tensor), str(pipeline), ranks=4)["parameters"]
    layout = Layout(4, tensor, pipeline)
    # megatron-core counts ranks through the tensor-parallel group first.
    assert found == [stage_parameters(SIZES["tiny"], layout, rank // tensor) for rank in range(4)]


def test_flops_and_parameters_of_one_rank_are_those_that_pytorch_counts(imported):
    found, shape = count("tiny", "1", "1", "flops"), SIZES["tiny"]
    assert found["parameters"] == [shape.num_parameters]
    planned = shape.flops_per_token(found["length"])
    assert found["flops_per_token"] == pytest.approx(planned, rel=1e-6)


@pytest.mark.parametrize("size", SIZES)
def test_on_one_device_a_stage_is_the_whole_model(size):
    assert stage_parameters(SIZES[size], Layout(1, 1, 1), 0) == SIZES[size].num_parameters


def test_the_whole_plan_of_a_bigger_machine_is_printed_without_it(capsys):
    assert main(["--dry-run", "--size", "800M", "--devices", "4", "--nodes", "2"]) == 0
    found = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert (found["num_devices"], found["num_nodes"], found["data_parallel_size"]) == ("8", "2", "8")
    assert (found["global_batch_size"], found["grad_accum_steps"]) == ("32", "1")
    assert found["num_parameters"] == found["parameters_per_device"] == "908759040"
    assert found["tokens_per_step"] == str(32 * 2048)
    assert float(found["model_flops_per_token"]) == pytest.approx(6.2553e9, rel=1e-4)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--size", "13B", "--devices", "3"], "3 devices cannot be shared by tensor_parallel_size 2"),
        (["--size", "800M", "--sequence-parallel", "on"], "needs a --tensor-parallel-size of 2 or more"),
        (["--size", "800M", "--devices", "0"], "devices must be above 0"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(flags, message, capsys):
    assert main(["--dry-run", *flags]) == 2
    assert message in capsys.readouterr().err
