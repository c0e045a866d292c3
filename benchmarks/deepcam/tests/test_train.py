"""The program as a user starts it: alone, and with workers."""

from __future__ import annotations

import pytest

from benchmarks.common.tests.started import recorded, start

pytestmark = pytest.mark.long

FEW_BLOCKS = "benchmarks.deepcam.tests.few_blocks"
SHORT = ["--size", "192x288", "--global-batch-size", "4", "--warmup-steps", "1", "--measured-steps", "3"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Fields of the size that few_blocks makes of the smaller one."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "made.py").write_text(
        f"import sys, {FEW_BLOCKS}\nfrom benchmarks.deepcam import prepare\nsys.exit(prepare.main())\n"
    )
    flags = ["--out", str(folder), "--size", "192x288", "--samples", "6", "--jobs", "1"]
    assert start("made", *flags, folder=folder).returncode == 0
    return folder


@pytest.mark.slow
def test_layouts_of_one_global_batch_have_the_same_losses(tmp_path):
    """Each pass is normalised by itself, so that passes are of the same samples."""
    flags = ["--learning-rate-warmup-steps", "1", "--learning-rate", "0.000001", "--micro-batch-size", "1"]
    found = [recorded(tmp_path / f"{workers}.json", FEW_BLOCKS, *SHORT, *flags, workers=workers) for workers in (0, 2)]
    assert [one["layout"]["grad_accum_steps"] for one in found] == [4, 2]
    assert len(found[0]["losses"]) == 4
    # Adam's first steps are as long for the least gradient as for the largest, so that rounding grows with the rate:
    # with this one the losses are the same, and what they fall by is, too.
    assert found[1]["losses"] == pytest.approx(found[0]["losses"], rel=1e-4)
    falls = [[one["losses"][0] - loss for loss in one["losses"][1:]] for one in found]
    assert falls[0][0] > 1e-3
    assert falls[1] == pytest.approx(falls[0], rel=0.05)
    regions = found[1]["regions"]["measured"]["regions"]
    assert {"Forward", "Backward", "Comm", "Update"} <= set(regions)
    assert found[1]["metrics"]["comm_percent"] > 0
    assert found[0]["metrics"]["comm_percent"] == 0


@pytest.mark.slow
def test_compute_and_effective_throughput_with_what_the_input_path_did(tmp_path, made):
    flags = ["--data", "fake-deepcam", "--data-dir", str(made), "--effective", "--rounds", "2", "--cold-cache"]
    flags += ["--stage", str(tmp_path / "disk")]
    found = recorded(tmp_path / "record.json", FEW_BLOCKS, *SHORT, *flags)
    metrics = found["metrics"]
    assert metrics["measured_samples"] == metrics["effective_samples"] == 2 * 2 * 4
    assert metrics["input_reading_percent"] + metrics["input_decoding_percent"] == pytest.approx(100)
    assert metrics["input_opens_per_s"] == pytest.approx(metrics["input_samples_per_s"])
    assert metrics["input_bytes_per_s"] == pytest.approx(metrics["input_samples_per_s"] * 32 * 48 * (16 * 4 + 1))
    assert metrics["staged_bytes"] == sum(path.stat().st_size for path in made.glob("data-*.h5"))
    assert metrics["epcc_samples"] == 4 * (1 + 2 * 2)
    assert metrics["records_damaged"] == 0
    assert {window["kind"] for window in found["windows"]} == {"measured", "effective"}


def test_the_whole_state_is_written_and_read_back(tmp_path):
    checkpoints = ["--checkpoint", str(tmp_path / "kept"), "--checkpoints", "1"]
    record = recorded(tmp_path / "record.json", FEW_BLOCKS, *SHORT, *checkpoints, workers=2)
    assert len(record["losses"]) == 4  # not that of the step between the write and the read
    assert record["metrics"]["checkpoint_bytes"] > 250e6  # 8 bytes for each of 32 million parameters
