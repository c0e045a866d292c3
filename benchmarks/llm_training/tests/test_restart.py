"""A run that continues from a checkpoint has the losses that the run before it would have had."""

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
def test_a_restored_run_has_the_losses_that_the_other_would_have_had(tmp_path, command, flags):
    folder = str(tmp_path / "kept")
    every = ["--checkpoint", folder, "--checkpoints", "1", "--checkpoint-every", "3"]
    whole = train(command, tmp_path / "whole.json", *flags, *every, "--measured-steps", "4")
    rest = train(command, tmp_path / "rest.json", *flags, "--restore", folder, "--measured-steps", "1")
    assert len(whole["losses"]) == 5  # not those of the step between a write and its restore
    assert rest["losses"] == whole["losses"][3:]
    metrics = whole["metrics"]
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


@pytest.mark.slow
def test_a_checkpoint_that_is_written_while_training_continues_is_of_the_step_before(tmp_path):
    """Its checksum after the restore is that of the state before the write: else the run would have failed."""
    flags = ["--checkpoint", str(tmp_path / "kept"), "--checkpoints", "1", "--async-checkpoint"]
    metrics = train(ALONE, tmp_path / "record.json", *flags, "--measured-steps", "1")["metrics"]
    assert metrics["checkpoint_async"] == 1
    assert 0 <= metrics["checkpoint_pause_s"] <= metrics["checkpoint_write_s"]
