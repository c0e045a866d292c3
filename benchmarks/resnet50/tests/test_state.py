"""Checkpoints of ResNet-50: the state that is read back is the one that was written, else the run fails."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.resnet50.tests.test_train import FEW_STAGES, start, workers

pytestmark = pytest.mark.long


def test_the_whole_state_is_written_and_read_back(tmp_path):
    flags = ["--checkpoint", str(tmp_path / "kept"), "--checkpoints", "1"]
    done = start([sys.executable, "-m", FEW_STAGES], tmp_path / "record.json", *flags)
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((tmp_path / "record.json").read_text())
    assert len(record["losses"]) == 7  # not that of the step between the write and the read
    assert record["metrics"]["checkpoint_bytes"] > 10e6  # of the few stages


@pytest.mark.slow
def test_several_processes_are_refused(tmp_path):
    done = start(workers(2), tmp_path / "record.json", "--checkpoint", str(tmp_path / "kept"))
    assert done.returncode != 0
    assert "resnet50 cannot write its state on CPUs or in several processes: leave it out" in done.stderr
