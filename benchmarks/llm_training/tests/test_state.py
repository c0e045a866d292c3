"""Checkpoints of GPT training: the state that is read back is the one that was written, else the run fails."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks.llm_training.tests.test_train import ENVIRONMENT, TORCHRUN
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

SMALL = ["--device", "cpu", "--global-batch-size", "2", "--micro-batch-size", "1", "--sequence-length", "32"]
SMALL += ["--learning-rate", "1e-3"]  # so that the loss falls within a few steps
ALONE = [sys.executable]
BOTH = [*TORCHRUN, "--nproc-per-node", "2"]


def train(command, record, *flags):
    done = subprocess.run(
        [*command, "-m", "benchmarks.llm_training", *SMALL, "--warmup-steps", "1", *flags, "--record", str(record)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Warning" not in done.stderr
    return json.loads(record.read_text())


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (ALONE, []),
        pytest.param(ALONE, ["--precision", "bf16"], marks=pytest.mark.slow),
        pytest.param(BOTH, [], marks=pytest.mark.slow),
        pytest.param(BOTH, ["--tensor-parallel-size", "2"], marks=pytest.mark.slow),
        pytest.param(BOTH, ["--pipeline-parallel-size", "2"], marks=pytest.mark.slow),
    ],
    ids=["alone", "bf16", "replicas", "tensor parallel", "pipeline parallel"],
)
def test_the_whole_state_is_written_and_read_back(tmp_path, command, flags):
    checkpoints = ["--checkpoint", str(tmp_path / "kept"), "--checkpoints", "1"]
    record = train(command, tmp_path / "record.json", *flags, *checkpoints, "--measured-steps", "4")
    assert len(record["losses"]) == 5  # not that of the step between the write and the read
    metrics = record["metrics"]
    assert metrics["checkpoint_bytes"] > 12 * metrics["num_parameters"] * (0.5 if "bf16" in flags else 1)


@pytest.mark.parametrize("late", [False, True])
def test_weights_that_would_be_gathered_late_are_gathered_before_a_checksum(late):
    from benchmarks.llm_training.gpt.state import State

    gathered = []
    model = SimpleNamespace(
        ddp_config=SimpleNamespace(overlap_param_gather=late),
        start_param_sync=lambda force_sync: gathered.append(force_sync),
        module=SimpleNamespace(parameters=list),
    )
    State(model, SimpleNamespace(tensors=list)).checksum()
    assert gathered == [True] * late
