"""Checkpoints of DeepCAM: the state that is read back is the one that was written, else the run fails."""

from __future__ import annotations

import pytest

from benchmarks.deepcam.tests.test_train import WORKERS, start

pytestmark = pytest.mark.long


def test_the_whole_state_is_written_and_read_back(tmp_path):
    checkpoints = ["--checkpoint", str(tmp_path / "kept"), "--checkpoints", "1"]
    record, done = start(WORKERS, tmp_path / "record.json", *checkpoints)
    assert "Warning" not in done.stderr
    assert len(record["losses"]) == 4  # not that of the step between the write and the read
    assert record["metrics"]["checkpoint_bytes"] > 250e6  # 8 bytes for each of 32 million parameters
