"""Checkpoints of GPT training: the state that is read back is the one that was written, else the run fails."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.common.tests.started import recorded

pytestmark = pytest.mark.long

SMALL = ["--device", "cpu", "--global-batch-size", "2", "--micro-batch-size", "1", "--sequence-length", "32"]
SMALL += ["--learning-rate", "1e-3"]  # so that the loss falls within a few steps


@pytest.mark.parametrize(
    ("workers", "flags"),
    [
        (0, []),
        pytest.param(0, ["--precision", "bf16"], marks=pytest.mark.slow),
        pytest.param(2, [], marks=pytest.mark.slow),
        pytest.param(2, ["--tensor-parallel-size", "2"], marks=pytest.mark.slow),
        pytest.param(2, ["--pipeline-parallel-size", "2"], marks=pytest.mark.slow),
    ],
    ids=["alone", "bf16", "replicas", "tensor parallel", "pipeline parallel"],
)
def test_the_whole_state_is_written_and_read_back(tmp_path, workers, flags):
    checkpoints = ["--checkpoint", str(tmp_path / "kept"), "--checkpoints", "1"]
    steps = ["--warmup-steps", "1", "--measured-steps", "4"]
    flags = [*SMALL, *steps, *checkpoints, *flags]
    record = recorded(tmp_path / "record.json", "benchmarks.llm_training", *flags, workers=workers)
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
