"""Runs into MLflow, on a store of its own, Weights & Biases, offline, and TensorBoard: with the real libraries."""

from __future__ import annotations

import json
import sys

import pytest

from caraml.cli import main
from results.tests.builder import result
from results.tests.test_regions import run, told

SPEED = 16 * 2048 / 0.6  # tokens/s, of steps of 0.6 s on average

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A sweep of two runs, one of which failed, and one that never ran; the working folder is beside it."""
    good = run(told(0.5, **{"Forward+Backward": 90.0, "Comm": 10.0}), batch=16, tokens_per_s=SPEED)
    good["step_times_s"] = [0.5, 0.6, 0.7]
    good["config"]["data"]["words"] = "x" * 9000
    bad = result(batch=32, status="failed", error="it broke")
    never = result(batch=64, status="unfinished", run_id="")
    for name, record in (("000000_benchmark", good), ("000001_benchmark", bad), ("000002_benchmark", never)):
        point = tmp_path / "sweep" / name
        (point / "power" / "n1").mkdir(parents=True)
        (point / "result.json").write_text(json.dumps(record))
        (point / "power" / "n1" / "trace.csv").write_text("time_s\n")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "sweep"


@pytest.mark.slow
def test_mlflow_has_each_run_once_with_all_that_is_known(folder, tmp_path, capsys):
    from mlflow import MlflowClient  # needs: pip install '.[tracking]'

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    assert main(["track", str(folder), "--mlflow", uri]) == 0
    assert f"{uri}: 2 of 2 runs logged" in capsys.readouterr().out
    assert main(["track", str(folder), "--mlflow", uri]) == 0
    assert "0 of 2 runs logged, the others were there" in capsys.readouterr().out
    client = MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("llm_training").experiment_id])
    assert sorted(one.info.status for one in runs) == ["FAILED", "FINISHED"]
    [good] = [one for one in runs if one.info.status == "FINISHED"]
    assert good.data.params["layout.global_batch_size"] == "16"
    assert good.data.params["config.data.words"] == "x" * 500
    assert good.data.metrics["regions.measured.Forward_Backward.share_percent"] == 90
    assert good.data.metrics["tokens_per_s"] == SPEED
    assert good.data.metrics["energy.energy_wh"] > 0
    steps = client.get_metric_history(good.info.run_id, "step_time_s")
    assert [(one.step, one.value) for one in steps] == [(0, 0.5), (1, 0.6), (2, 0.7)]
    assert {one.path for one in client.list_artifacts(good.info.run_id)} == {"result.json", "power"}
    assert [one.path for one in client.list_artifacts(good.info.run_id, "power/n1")] == ["power/n1/trace.csv"]
    [bad] = [one for one in runs if one.info.status == "FAILED"]
    assert bad.data.params["error"] == "it broke"


def test_wandb_has_each_run_once_offline(folder, tmp_path, capsys):
    assert main(["track", str(folder), "--wandb", "offline"]) == 0
    assert "wandb (offline): 2 of 2 runs logged" in capsys.readouterr().out
    found = list((tmp_path / "work" / "wandb").glob("offline-run-*"))
    assert len(found) == 2
    ids = {json.loads(path.read_text())["run_id"] for path in folder.rglob("result.json")} - {""}
    assert {path.name.rpartition("-")[2] for path in found} == ids
    written = b"".join(path.read_bytes() for one in found for path in one.glob("run-*.wandb"))
    for text in (b"regions.measured.Comm.share_percent", b"step_time_s", b"layout.global_batch_size"):
        assert text in written
    assert main(["track", str(folder), "--wandb", "offline"]) == 0
    assert "0 of 2 runs logged, the others were there" in capsys.readouterr().out
    (found[0] / "logged.offline").unlink()  # as where it was cut short
    assert main(["track", str(folder), "--wandb", "offline"]) == 0
    assert "1 of 2 runs logged" in capsys.readouterr().out


@pytest.mark.long  # TensorFlow starts
def test_tensorboard_has_each_run_once(folder, tmp_path, capsys):
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,  # needs: pip install tensorboard
    )
    from tensorboard.util import tensor_util

    logs = tmp_path / "logs"
    assert main(["track", str(folder), "--tensorboard", str(logs)]) == 0
    assert f"{logs}: 2 of 2 runs logged" in capsys.readouterr().out
    [good] = [place for place in logs.iterdir() if "global-batch-16" in place.name]
    events = EventAccumulator(str(good), size_guidance={"tensors": 0})
    events.Reload()
    found = {
        tag: [(one.step, tensor_util.make_ndarray(one.tensor_proto)) for one in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }
    assert [(step, float(value)) for step, value in found["step_time_s"]] == [
        (0, 0.5),
        (1, pytest.approx(0.6)),
        (2, pytest.approx(0.7)),
    ]
    assert float(found["tokens_per_s"][0][1]) == pytest.approx(SPEED)
    assert b"layout.global_batch_size: 16\n" in found["run"][0][1].item()
    assert main(["track", str(folder), "--tensorboard", str(logs)]) == 0
    assert "0 of 2 runs logged, the others were there" in capsys.readouterr().out
    (tmp_path / "file").touch()
    assert main(["track", str(folder), "--tensorboard", str(tmp_path / "file")]) == 2
    assert "cannot be written to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "value", "module", "extra"),
    [
        ("--mlflow", "sqlite:///a.db", "mlflow", "tracking"),
        ("--wandb", "offline", "wandb", "tracking"),
        ("--tensorboard", "logs", "tensorflow", "resnet"),
    ],
)
def test_a_library_that_is_not_installed_is_one_sentence(folder, flag, value, module, extra, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["track", str(folder), flag, value]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f"{flag} needs {module}, which is not installed: pip install '.[{extra}]'")


def test_a_server_that_does_not_answer_is_one_sentence(folder, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert main(["track", str(folder), "--mlflow", "http://127.0.0.1:9"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("caraml: --mlflow http://127.0.0.1:9 cannot be written to: ")
    assert len(list(folder.rglob("result.json"))) == 3


def test_a_place_is_needed(folder, capsys):
    assert main(["track", str(folder)]) == 2
    assert "track needs a place to log to" in capsys.readouterr().err
