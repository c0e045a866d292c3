"""A run of DeepCAM that continues from a checkpoint has the losses that the run before it would have had."""

from __future__ import annotations

import pytest

from benchmarks.deepcam.tests.test_train import ALONE, WORKERS, made, start  # noqa: F401

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (WORKERS, []),
        pytest.param(ALONE, ["--optimizer", "lamb", "--async-checkpoint"], marks=pytest.mark.slow),
    ],
    ids=["workers", "lamb"],
)
def test_a_restored_run_has_the_losses_that_the_other_would_have_had(tmp_path, command, flags):
    folder = str(tmp_path / "kept")
    if "--async-checkpoint" in flags:
        start(command, tmp_path / "async.json", *flags, "--checkpoint", str(tmp_path / "other"), "--checkpoints", "1")
        flags = flags[:-1]
    every = ["--checkpoint", folder, "--checkpoints", "1", "--checkpoint-every", "3"]
    whole, done = start(command, tmp_path / "whole.json", *flags, *every)
    rest, _ = start(command, tmp_path / "rest.json", *flags, "--restore", folder, "--measured-steps", "1")
    assert "Warning" not in done.stderr
    assert len(whole["losses"]) == 4
    assert rest["losses"][0] == whole["losses"][3]


@pytest.mark.slow
def test_a_restored_run_takes_the_files_that_come_next(tmp_path, made):  # noqa: F811
    flags = ["--data", "fake-deepcam", "--data-dir", str(made)]
    folder = str(tmp_path / "kept")
    every = ["--checkpoint", folder, "--checkpoints", "0", "--checkpoint-every", "3"]
    whole, _ = start(ALONE, tmp_path / "whole.json", *flags, *every)
    rest, _ = start(ALONE, tmp_path / "rest.json", *flags, "--restore", folder, "--measured-steps", "1")
    assert rest["losses"][0] == whole["losses"][3]
