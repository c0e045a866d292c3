"""Checkpoints of a workload without a framework: its state is a number."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.measure import checkpoints
from benchmarks.common.measure.checkpoints import Round
from benchmarks.common.tests.test_session import Adding, Sums

SHORT = ["--warmup-steps", "1", "--measured-steps", "4"]


@dataclass
class Number:
    """A State: the sum of all steps."""

    training: Adding
    size_bytes = 1000

    def checksum(self):
        return str(sum(self.training.made, self.training.before))

    def save(self, folder):
        (folder / "__0_0.distcp").write_text(json.dumps(int(self.checksum())).rjust(4000))

    def load(self, folder):
        self.training.before = json.loads((folder / "__0_0.distcp").read_text()) - sum(self.training.made)


class Kept(Adding):
    before = 0

    def __init__(self, run):
        super().__init__(run)
        self.state = Number(self)


class KeptSums(Sums):
    def build(self, target):
        return Kept(self)


@pytest.fixture
def run(run_of, capsys):
    """The exit code, the record and the messages of a run."""
    return lambda *flags, workload=KeptSums: (*run_of(workload, *SHORT, *flags), capsys.readouterr().err)


def test_checkpoints_are_measured_after_the_window_and_leave_nothing(run, tmp_path):
    folder = tmp_path / "kept"
    _, without, _ = run()
    code, record, _ = run("--checkpoint", str(folder), "--checkpoints", "3")
    metrics = record["metrics"]
    assert (code, list(folder.iterdir())) == (0, [])
    assert (metrics["checkpoint_rounds"], metrics["checkpoint_bytes"]) == (3, 4000)
    for word, size in (("write", 4000), ("restore", 1000)):
        least_s, mean_s, most_s = (metrics[f"checkpoint_{word}_{one}s"] for one in ("least_", "", "most_"))
        assert 0 < least_s <= mean_s <= most_s
        assert size / most_s <= metrics[f"checkpoint_{word}_gb_per_s"] * 1e9 <= size / least_s
    assert [window["kind"] for window in record["windows"]] == ["measured", *["checkpoint", "restore"] * 3]
    assert len(record["losses"]) == len(without["losses"]) == 5  # none of those after the window
    assert record["metrics"]["measured_steps"] == without["metrics"]["measured_steps"]


def test_metrics_are_of_the_slowest_rank_and_means_of_the_rounds():
    quick, slow = Round(1, 2, 4_000_000_000, 10_000_000_000, 7e9), Round(2, 5, 2, 5, 0.0)
    found = checkpoints._metrics([[quick, slow], [quick, quick]])
    assert (found["checkpoint_write_s"], found["checkpoint_restore_s"]) == (1.5, 3.5)
    assert (found["checkpoint_write_least_s"], found["checkpoint_restore_most_s"]) == (1, 5)
    assert found["checkpoint_write_gb_per_s"] == pytest.approx((4 / 2 + 4 / 1) / 2)
    assert found["checkpoint_restore_gb_per_s"] == pytest.approx((10 / 5 + 10 / 2) / 2)


@pytest.mark.parametrize(("storage_bytes", "cold"), [(100, 1), (89, 0), (0, 0)])
def test_a_read_is_cold_if_storage_delivered_the_bytes(storage_bytes, cold):
    assert checkpoints._metrics([[Round(1, 1, 100, 100, storage_bytes)]])["checkpoint_cold"] == cold


def test_a_state_that_is_not_the_one_that_was_written_fails_the_run(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Number, "load", lambda self, folder: None)
    code, record, err = run("--checkpoint", str(tmp_path / "kept"))
    assert (code, record["status"], list((tmp_path / "kept").iterdir())) == (1, "failed", [])
    assert "is not the one that was written: its checksums differ" in err


class OfRanks(BaseException):
    """Like the CheckpointException of torch.distributed.checkpoint."""

    def __init__(self, cause):
        self.failures = {1: (cause, None)}


@pytest.mark.parametrize("of_ranks", [lambda cause: cause, OfRanks], ids=["one", "ranks"])
def test_a_failed_write_is_one_sentence_and_leaves_nothing(run, tmp_path, monkeypatch, of_ranks):
    def save(self, folder):
        (folder / "half").write_text("x")
        raise of_ranks(OSError(28, "No space left on device"))

    monkeypatch.setattr(Number, "save", save)
    code, record, _ = run("--checkpoint", str(tmp_path / "kept"))
    assert (code, list((tmp_path / "kept").iterdir())) == (1, [])
    assert "cannot be written to" in record["error"]
    assert "No space left on device): make room, or choose another folder" in record["error"]


def test_a_workload_without_a_state_has_no_checkpoints(run, tmp_path):
    code, record, _ = run("--checkpoint", str(tmp_path), workload=Sums)
    assert code == 2
    assert "sums cannot write its state on CPUs or in several processes: leave it out" in record["error"]


def test_each_rank_syncs_its_own_files(tmp_path):
    names = ["__0_0.distcp", "__12_0.distcp", "__1_3.distcp", ".metadata", "common.pt"]
    for name in names:
        (tmp_path / name).touch()
    found = [{path.name for path in checkpoints._own_files(tmp_path, Launch(rank, 13))} for rank in (0, 1, 12)]
    assert found == [{"__0_0.distcp", ".metadata", "common.pt"}, {"__1_3.distcp"}, {"__12_0.distcp"}]
