"""The program as a user starts it: alone, and with workers."""

from __future__ import annotations

import pytest

from benchmarks.common.tests.started import recorded
from benchmarks.cosmoflow.tests.test_model_and_data import volumes as volumes

pytestmark = pytest.mark.long

COSMOFLOW = "benchmarks.cosmoflow"
# Few batches are made in advance, as all of them are used up before each block.
FEW_AHEAD = ["--prefetch-batches", "1", "--parallel-files", "1"]
SHORT = ["--size", "32", "--global-batch-size", "4", "--warmup-steps", "1", "--measured-steps", "4"]


@pytest.mark.slow
def test_compute_and_effective_throughput_with_what_the_input_path_did(tmp_path, volumes):
    flags = ["--data", "fake-cosmoflow", "--data-dir", str(volumes), "--effective", "--rounds", "2", "--cold-cache"]
    flags += FEW_AHEAD
    flags += ["--stage", str(tmp_path / "disk")]
    found = recorded(tmp_path / "record.json", COSMOFLOW, *SHORT, *flags)
    metrics = found["metrics"]
    assert metrics["measured_samples"] == metrics["effective_samples"] == 2 * 2 * 4
    assert 0 <= metrics["input_wait_share"] < 1
    parts = [metrics[f"input_{part}_percent"] for part in ("reading", "decompressing", "decoding")]
    assert sum(parts) == pytest.approx(100)
    assert metrics["input_opens_per_s"] > 0
    assert metrics["input_bytes_per_s"] > 1000 * metrics["input_opens_per_s"]
    assert metrics["staged_bytes"] == sum(path.stat().st_size for path in volumes.glob("*.tfrecord"))
    assert len(list((tmp_path / "disk").glob("*/*/*.tfrecord"))) == 8
    # One warm-up step and two blocks of two are all steps on files whose time EPCC's figure takes.
    assert metrics["epcc_samples"] == 4 * (1 + 2 * 2)
    assert metrics["epcc_samples_per_s"] == pytest.approx(metrics["epcc_samples"] / metrics["epcc_s"])
    assert metrics["epcc_s"] > metrics["effective_s"]
    assert {window["kind"] for window in found["windows"]} == {"measured", "effective"}
    parts = found["regions"]["in parts"]["regions"]
    assert {"Forward", "Backward", "Update"} <= set(parts)
