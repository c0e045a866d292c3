"""Runs for TensorBoard, opened by TensorBoard's own reader."""

from __future__ import annotations

import json

import pytest

from caraml.cli import main
from results.tests.made_up import result
from results.tests.test_reads import MB, run

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.long]  # TensorFlow starts


def opened(folder):
    """What TensorBoard reads in a run's folder."""
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,  # needs: pip install tensorboard
    )
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: [(one.step, tensor_util.make_ndarray(one.tensor_proto)) for one in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


def test_tensorboard_shows_curves_distributions_and_what_was_read(job, tmp_path, capsys):
    record = run(job)
    logs = tmp_path / "logs"
    assert main(["track", str(job.path), "--tensorboard", str(logs)]) == 0
    assert f"{logs}: 1 of 1 runs logged" in capsys.readouterr().out
    [folder] = [path for path in logs.iterdir() if path.is_dir()]
    found = opened(folder)
    assert [float(value) for _, value in found["loss"]] == record["losses"]
    assert [float(value) for _, value in found["step_time_s"]][:1] == record["step_times_s"][:1]
    assert float(found["tokens_per_s"][0][1]) == 100
    rates = [float(value) for _, value in found["read_MB_per_s/n1"]]
    assert len(rates) == 200
    assert sum(rates) * record["io"]["over_time"][0]["part_s"] == pytest.approx(8, rel=1e-3)
    [(_, reads)] = found["bytes_of_a_read"]
    assert sum(count for *_, count in reads) == 10
    assert all(low <= 0.8 * MB <= high for low, high, count in reads if count)
    [(_, text)] = found["files"]
    table = text.item().decode().splitlines()
    assert table[0].startswith("| path | bytes | window_bytes ")
    assert table[2].startswith("| /data/part-0 | 16000000 | 8000000 | 4000000 | 2 | 10 |")
    assert main(["track", str(job.path), "--tensorboard", str(logs)]) == 0
    assert "0 of 1 runs logged, the others were there" in capsys.readouterr().out


def test_a_run_that_read_nothing_that_was_counted_has_its_curves(tmp_path):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "result.json").write_text(json.dumps(result(batch=16)))
    assert main(["track", str(tmp_path / "sweep"), "--tensorboard", str(tmp_path / "logs")]) == 0
    [folder] = [path for path in (tmp_path / "logs").iterdir() if path.is_dir()]
    assert "files" not in opened(folder)
    assert "run" in opened(folder)


def test_a_place_that_cannot_be_written_to_is_said(tmp_path, capsys):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "result.json").write_text(json.dumps(result(batch=16)))
    (tmp_path / "logs").write_text("a file")
    assert main(["track", str(tmp_path / "sweep"), "--tensorboard", str(tmp_path / "logs")]) == 2
    assert "cannot be written to" in capsys.readouterr().err
