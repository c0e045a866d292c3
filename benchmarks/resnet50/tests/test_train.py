"""The program as a user starts it: alone, and with workers."""

from __future__ import annotations

import pytest

from benchmarks.common.launch import usable_cpus
from benchmarks.common.tests.started import recorded

pytestmark = pytest.mark.long

FEW_STAGES = "benchmarks.resnet50.tests.few_stages"
SHORT = ["--image-size", "32", "--global-batch-size", "8", "--warmup-steps", "1", "--measured-steps", "6"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    record = tmp_path_factory.mktemp("alone") / "record.json"
    return recorded(record, "benchmarks.resnet50", *SHORT, "--learning-rate-warmup-steps", "1", "--precision", "fp32")


def test_the_record_has_what_was_used_and_the_windows_throughput(alone):
    assert alone["status"] == "ok"
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
    flags = [*SHORT, "--steps-per-call", "2", "--learning-rate-warmup-steps", "1"]
    found = recorded(tmp_path / "record.json", FEW_STAGES, *flags, workers=2)
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


def test_the_whole_state_is_written_and_read_back(tmp_path):
    flags = [*SHORT, "--checkpoint", str(tmp_path / "kept"), "--checkpoints", "1"]
    record = recorded(tmp_path / "record.json", FEW_STAGES, *flags)
    assert len(record["losses"]) == 7  # not that of the step between the write and the read
    assert record["metrics"]["checkpoint_bytes"] > 10e6  # of the few stages
