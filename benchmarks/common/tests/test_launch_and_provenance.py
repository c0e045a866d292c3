from __future__ import annotations

import time

import pytest

from benchmarks.common.launch import Launch, mark, node_window, read_launch
from benchmarks.common.options import ConfigError
from benchmarks.common.provenance import collect_provenance


def test_a_process_started_alone_is_a_world_of_one():
    assert read_launch({}) == Launch(rank=0, world_size=1, local_rank=0, local_world_size=1)


def test_torchruns_variables_tell_rank_and_nodes():
    launch = read_launch({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"})
    assert launch == Launch(5, 8, 1, 4)
    assert launch.num_nodes == 2
    assert not launch.is_first_on_node


def test_half_of_the_variables_is_an_error_that_names_the_others():
    with pytest.raises(ConfigError, match="LOCAL_RANK, LOCAL_WORLD_SIZE"):
        read_launch({"RANK": "0", "WORLD_SIZE": "2"})


def test_a_window_has_the_same_moments_on_both_clocks():
    now_s, now_epoch_s = time.monotonic(), time.time()
    window = node_window(now_s - 2.0, now_s - 1.0)
    assert window.end_s - window.start_s == pytest.approx(1.0)
    assert window.start_epoch_s == pytest.approx(now_epoch_s - 2.0, abs=0.1)
    assert window.end_epoch_s - window.start_epoch_s == pytest.approx(1.0)


def test_a_mark_is_a_line_in_the_samplers_file_and_nothing_without_a_sampler(tmp_path):
    path = tmp_path / "marks"
    mark("begin", "measured window", 12.5, {"JPWR_MARKS": str(path)})
    mark("end", "measured window", 20.25, {"JPWR_MARKS": str(path)})
    mark("begin", "measured window", 1.0, {})
    assert path.read_text() == "begin measured window @12.500000\nend measured window @20.250000\n"


def test_provenance_names_versions_and_leaves_the_rest_of_the_environment_out(monkeypatch):
    monkeypatch.setenv("MY_SECRET", "x" * 20)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    origin = collect_provenance(["pytest", "no-such-package"])
    assert origin["packages"]["pytest"] == pytest.__version__
    assert origin["packages"]["no-such-package"] is None
    assert origin["environment"]["SLURM_JOB_ID"] == "4711"
    assert "x" * 20 not in str(origin)
