"""A run of ResNet-50 that continues from a checkpoint has the losses that the run before it would have had."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.resnet50.tests.test_train import FEW_STAGES, start, workers

pytestmark = pytest.mark.long


@pytest.mark.parametrize("how", [[], pytest.param(["--async-checkpoint"], marks=pytest.mark.slow)], ids=["", "async"])
def test_a_restored_run_has_the_losses_that_the_other_would_have_had(tmp_path, how):
    command, folder = [sys.executable, "-m", FEW_STAGES], str(tmp_path / "kept")

    def train(name, *flags):
        done = start(command, tmp_path / name, *flags)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads((tmp_path / name).read_text())

    whole = train("whole.json", "--checkpoint", folder, "--checkpoints", "0", "--checkpoint-every", "4")
    flags = ["--restore", folder, "--measured-steps", "2", "--checkpoint", str(tmp_path / "other"), *how]
    rest = train("rest.json", *flags, "--checkpoints", "1")
    assert len(whole["losses"]) == 7
    assert rest["losses"] == whole["losses"][4:]


@pytest.mark.slow
def test_several_processes_are_refused(tmp_path):
    done = start(workers(2), tmp_path / "record.json", "--checkpoint", str(tmp_path / "kept"))
    assert done.returncode != 0
    assert "resnet50 cannot write its state on CPUs or in several processes: leave it out" in done.stderr
