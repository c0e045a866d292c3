"""The program as a user starts it, alone and with workers, and what it makes and counts."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.tests.started import recorded
from benchmarks.common.workload import flops_of_sample, num_parameters
from benchmarks.fno.config import SIZES
from benchmarks.fno.train import SHIFT, made_fields
from tests.later import Later

torch = Later("torch")
SHORT = ["--global-batch-size", "4", "--warmup-steps", "1", "--measured-steps", "3"]
FLAGS = ["--device", "cpu", "--size", "tiny", *SHORT]
RATE = ["--learning-rate", "0.01", "--learning-rate-warmup-steps", "1"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The record of one process."""
    return recorded(tmp_path_factory.mktemp("alone") / "record.json", "benchmarks.fno", *FLAGS, *RATE)


@pytest.mark.long
def test_two_ranks_learn_as_one_and_their_state_is_read_back(alone, tmp_path):
    flags = ["--micro-batch-size", "1", "--checkpoint", str(tmp_path / "kept"), "--checkpoints", "1"]
    both = recorded(tmp_path / "record.json", "benchmarks.fno", *FLAGS, *RATE, *flags, workers=2)
    assert both["layout"]["grad_accum_steps"] == 2
    assert both["losses"] == pytest.approx(alone["losses"], rel=1e-4)
    assert alone["losses"][-1] < alone["losses"][0] - 0.03
    assert both["metrics"]["checkpoint_bytes"] > 3 * 4 * num_parameters("fno", "FNO tiny")  # Adam has two of each
    assert {"Forward", "Backward", "Comm", "Update"} <= set(both["regions"]["measured"]["regions"])
    assert (both["work_unit"], both["metrics"]["measured_timesteps"]) == ("timesteps", 3 * 4)
    assert both["metrics"]["comparable"] is False


@pytest.mark.long
def test_bf16_learns_as_fp32_does(alone, tmp_path):
    record = recorded(tmp_path / "record.json", "benchmarks.fno", *FLAGS, *RATE, "--precision", "bf16")
    assert record["precision"] == "bf16"
    assert record["losses"] == pytest.approx(alone["losses"], rel=0.01)
    assert record["losses"] != alone["losses"]


@pytest.mark.long
def test_an_evaluation_is_another_model_that_learns_nothing(alone, tmp_path):
    flags = ["--evaluation", "--data", "synthetic-host", "--effective", "--rounds", "2"]
    record = recorded(tmp_path / "record.json", "benchmarks.fno", *FLAGS, *flags, workers=2)
    assert (alone["model"], record["model"]) == ("FNO tiny", "FNO evaluation tiny")
    assert {"Forward"} == {"Forward", "Backward", "Comm", "Update"} & set(record["regions"]["measured"]["regions"])
    assert record["losses"] == pytest.approx([alone["losses"][0]] * len(record["losses"]))


@pytest.mark.parametrize("size", SIZES)
def test_the_next_fields_are_the_first_ones_that_have_moved_and_decayed(size):
    shape = SIZES[size]
    before, after = made_fields(shape, (1, 2))
    assert before.shape == after.shape == (shape.fields, *shape.grid)
    assert before.dtype == after.dtype == np.float32
    assert before.std() == pytest.approx(1)
    first, second = (np.fft.fftn(fields[0])[(1,) + (0,) * (before.ndim - 2)] for fields in (before, after))
    assert np.angle(second / first) == pytest.approx(-SHIFT, abs=1e-3)
    assert 0.3 < after.std() < 0.95
    assert not np.array_equal(before, made_fields(shape, (1, 3))[0])


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
def test_parameters_and_flops_are_those_that_the_package_and_pytorch_count(size):
    from neuralop.utils import count_model_params
    from torch.utils.flop_counter import FlopCounterMode

    from benchmarks.fno.model import build_model

    model, shape = build_model(size, 1), SIZES[size]
    assert count_model_params(model) == num_parameters("fno", f"FNO {size}")
    fields = torch.rand(1, shape.fields, *shape.grid)

    def counted():
        counts = counter.get_flop_counts()["Global"].items()
        return sum(count * (4 if "bmm" in str(product) else 1) for product, count in counts)  # real ones of a complex

    for name in ("FNO evaluation", "FNO"):
        with FlopCounterMode(display=False) as counter:
            predicted = model(fields)
            if name == "FNO":
                predicted.sum().backward()
        assert counted() == flops_of_sample("fno", f"{name} {size}", shape.sample).per_unit
