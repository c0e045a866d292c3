"""The program as a user starts it: alone, and with workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.common.launch import usable_cpus
from benchmarks.resnet50.train import main
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[3]
ENVIRON = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"}
ALONE = [sys.executable, "-m", "benchmarks.resnet50"]
FEW_STAGES = "benchmarks.resnet50.tests.few_stages"
SHORT = ["--image-size", "32", "--global-batch-size", "8", "--warmup-steps", "1", "--measured-steps", "6"]


def workers(number: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.common.spawn", "--nproc-per-node", str(number), "-m", FEW_STAGES]


def start(command, record, *flags):
    return subprocess.run(
        [*command, *SHORT, "--record", str(record), *flags],
        env=ENVIRON,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    record = tmp_path_factory.mktemp("alone") / "record.json"
    done = start(ALONE, record, "--learning-rate-warmup-steps", "1", "--precision", "fp32")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(record.read_text())


def test_the_record_has_what_was_used_and_the_windows_throughput(alone):
    [window] = alone["windows"]
    assert alone["status"] == "ok"
    assert alone["metrics"]["measured_images"] == 6 * 8
    assert window["end_s"] - window["start_s"] == pytest.approx(sum(alone["step_times_s"]))
    assert alone["metrics"]["images_per_s"] == pytest.approx(48 / sum(alone["step_times_s"]))
    assert alone["config"]["compute"]["precision"] == "fp32"
    assert alone["provenance"]["environment"]["NVIDIA_TF32_OVERRIDE"] == "0"
    assert alone["devices"][0]["cpus"] == usable_cpus()
    assert alone["config"]["compute"]["xla"] == "off"
    assert alone["metrics"]["comparable"] is False
    assert len(alone["losses"]) == 7


def test_one_batch_is_learnt(alone):
    assert alone["losses"][0] == pytest.approx(6.9, abs=0.3)  # ln 1000, before anything is learnt
    assert alone["losses"][-1] < alone["losses"][0] - 1


@pytest.mark.slow
def test_two_workers_train_together(tmp_path):
    record = tmp_path / "record.json"
    done = start(workers(2), record, "--steps-per-call", "2", "--learning-rate-warmup-steps", "1")
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(record.read_text())
    assert [device["rank"] for device in found["devices"]] == [0, 1]
    assert found["layout"]["num_devices"] == 2
    assert found["metrics"]["measured_images"] == 6 * 2 * 8
    assert len(found["windows"]) == 1
    assert found["losses"][-1] < found["losses"][0]
    # Several steps in one call tell nothing of their input.
    parts = {"Forward", "Backward", "Comm", "Update"}
    assert parts <= set(found["regions"]["measured"]["regions"]) <= {*parts, "Other"}
    assert len(found["regions"]["measured"]["regions"]["Comm"]["by_rank_s"]) == 2
    assert found["metrics"]["comm_percent"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--imag-size", "32"], "no option --imag-size: did you mean '--image-size'"),
        (["--data", "imagenet", "--data-dir", "{tmp}"], "has no files train-"),
        (["--device", "gpu"], "--device gpu was asked for, but TensorFlow shows none"),
        (["--record", "{tmp}/file"], "exists already"),
    ],
)
def test_bad_options_are_one_clear_sentence(flags, message, tmp_path, capsys):
    (tmp_path / "file").write_text("an earlier result")
    record = ["--record", str(tmp_path / "record.json")]
    assert main([*SHORT, *record, *(flag.format(tmp=tmp_path) for flag in flags)]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
