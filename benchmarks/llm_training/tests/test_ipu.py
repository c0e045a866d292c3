"""The path of Graphcore's IPUs through a stand-in of PopTorch, which does on the CPU what its documentation says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.llm_training.tests.conftest import trained
from benchmarks.llm_training.train import main
from tests.later import Later

pytestmark = pytest.mark.long

ipu = Later("benchmarks.llm_training.gpt.ipu")

STAND_IN = Path(__file__).with_name("poptorch_stand_in.py")
FLAGS = ["--device", "ipu", "--precision", "fp32", "--sequence-length", "32", "--learning-rate", "1e-3"]
BATCH = ["--micro-batch-size", "1", "--global-batch-size", "8"]
NO_SDK = "--device ipu needs PopTorch of the Poplar SDK"
STEPS = ["--warmup-steps", "1", "--measured-steps", "3"]


def with_stand_in(folder: Path) -> Path:
    (folder / "poptorch.py").write_text(STAND_IN.read_text())
    return folder


def pipelined(folder: Path, stages: int) -> dict[str, Any]:
    """Return the record of a pipeline of so many IPUs; the folder has what was asked of PopTorch."""
    flags = [*FLAGS, *STEPS, *BATCH, "--pipeline-parallel-size", str(stages)]
    return trained(folder / "record.json", *flags, PYTHONPATH=str(with_stand_in(folder)))


@pytest.fixture(scope="module")
def pipeline(imported, tmp_path_factory):
    """The record and the folder of four IPUs."""
    folder = tmp_path_factory.mktemp("pipeline")
    return pipelined(folder, 4), folder


def test_a_pipeline_of_four_ipus_trains_in_one_process(pipeline):
    record, folder = pipeline
    layout = record["layout"]
    assert (layout["num_devices"], layout["num_nodes"], layout["grad_accum_steps"]) == (4, 1, 8)
    assert [device["name"] for device in record["devices"]] == ["IPU"] * 4
    # Tokens, not sequences.
    assert record["metrics"]["measured_tokens"] == 3 * 8 * 32
    assert record["losses"][-1] < record["losses"][0]
    asked = json.loads((folder / "asked.json").read_text())
    assert asked["gradientAccumulation"] == 8
    assert asked["strategy"] == "PipelinedExecution(AutoIncrement)"
    assert asked["blocks"] == [["embedding", 0], ["layers from 0", 1], ["layers from 2", 2], ["output", 0]]


def test_one_ipu_has_the_losses_of_a_pipeline(pipeline, tmp_path):
    assert pipelined(tmp_path, 1)["losses"] == pytest.approx(pipeline[0]["losses"])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pipeline-parallel-size", "4", "--micro-batch-size", "1", "--global-batch-size", "4"], "must be 8 or more"),
        (["--tensor-parallel-size", "2"], "has pipeline parallelism only"),
        (["--size", "tiny-llama"], "--size tiny-llama was asked for, but --device ipu trains GPT-2's layers only"),
        (["--precision", "bf16"], "IPUs do not have it: use fp16 or fp32"),
        (["--recompute", "full"], "--recompute was asked for, but a pipeline of IPUs recomputes"),
        ([], NO_SDK),
    ],
)
def test_what_ipus_cannot_do_is_said(flags, message, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("benchmarks.common.session.FULL_FP32", {})  # it would stay in the environment
    monkeypatch.delitem(sys.modules, "poptorch", raising=False)
    if message != NO_SDK:
        monkeypatch.syspath_prepend(str(with_stand_in(tmp_path)))
    assert main([*FLAGS, *STEPS, "--record", str(tmp_path / "record.json"), *flags]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("ipus", "expected"), [(1, [0] * 12), (2, [0] * 6 + [1] * 6), (4, [1] * 4 + [2] * 4 + [3] * 4)]
)
def test_layers_are_spread_over_the_ipus_beside_the_embeddings(ipus, expected):
    assert ipu.ipus_of_layers(12, ipus) == expected
