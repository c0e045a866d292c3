"""Records that lie: each number that follows from others, one at a time and all together."""

from __future__ import annotations

import json

import pytest

from caraml.cli import main
from results.derived import contradictions
from results.records import find_records
from results.tests import made_up

STEPS, STEP_S = 60, 1.0


def run(**changes):
    """A good one, of 60 steps of 8 sequences in 60 s on two devices, with all that its numbers follow from."""
    record = made_up.result(devices=2, steps=STEPS, tokens_per_s=8 * 2048 / STEP_S)
    record["metrics"] |= {
        "measured_steps": STEPS,
        "model_flops_per_token": 6.26e9,
        "tflops_per_device": 8 * 1024 * 6.26e9 / 1e12,
        "peak_tflops_per_device": 989.0,
        "mfu": 8 * 1024 * 6.26e9 / 1e12 / 989.0,
    }
    record["energy"]["channels"][0]["device_id"] = "GPU-1"
    record["provenance"]["nodes"] = [{"devices": [{"uuid": "GPU-1", "power.limit": "700.00 W"}]}]
    return record | changes


def changed(path, change):
    record = run()
    *above, last = path.split(".")
    inside = record
    for name in above:
        inside = inside[int(name) if isinstance(inside, list) else name]
    inside[last] = change(inside[last])
    return record


def test_a_good_record_contradicts_nothing():
    assert contradictions(run()) == []


@pytest.mark.parametrize(
    "path",
    [
        "metrics.measured_tokens",
        "metrics.measured_s",
        "metrics.measured_steps",
        "metrics.tokens_per_s",
        "metrics.tokens_per_s_per_device",
        "metrics.model_flops_per_token",
        "metrics.tflops_per_device",
        "metrics.peak_tflops_per_device",
        "metrics.mfu",
        "layout.num_devices",
        "layout.global_batch_size",
        "layout.sequence_length",
        "layout.data_parallel_size",
        "energy.energy_wh",
        "energy.energy_wh_per_device",
        "energy.tokens_per_wh",
        "energy.avg_power_w",
        "energy.window_s",
        "energy.channels.0.energy_wh",
        "windows.0.end_s",
    ],
)
@pytest.mark.parametrize("factor", [0.5, 1.5, 1000])
def test_no_number_that_follows_from_others_can_be_changed_by_itself(path, factor):
    assert contradictions(changed(path, lambda value: value * factor))


@pytest.mark.parametrize("value", [0, -5])
@pytest.mark.parametrize(
    "path", ["layout.num_devices", "metrics.tokens_per_s", "metrics.tokens_per_s_per_device", "energy.energy_wh"]
)
def test_a_number_that_cannot_be_is_named(path, value):
    assert f"{path} is {value}, which it cannot be" in contradictions(changed(path, lambda _: value))


@pytest.mark.parametrize("factor", [1.5, 1000.0])
def test_more_work_than_steps_is_found_however_many_numbers_go_with_it(factor):
    record = run()
    for name in ("measured_tokens", "tokens_per_s", "tokens_per_s_per_device", "tflops_per_device", "mfu"):
        record["metrics"][name] *= factor
    record["energy"]["tokens_per_wh"] *= factor
    assert any("its steps and batch make" in sentence for sentence in contradictions(record))
    record["metrics"]["measured_steps"] = round(STEPS * factor)
    assert any("its steps take" in sentence for sentence in contradictions(record))


def test_more_than_the_device_has_is_named():
    record = run()
    record["metrics"] |= {"peak_tflops_per_device": 50.0, "mfu": record["metrics"]["tflops_per_device"] / 50.0}
    assert contradictions(record) == ["103% of the device's peak FLOP/s are more than it has"]
    record = changed("provenance.nodes.0.devices", lambda _: [{"uuid": "GPU-1", "power.limit": "50.00 W"}])
    assert contradictions(record) == ["channel made:0 has 200 W on average, and its board's limit is 100 W"]


def test_a_run_that_failed_has_nothing_to_contradict():
    assert contradictions(run(status="failed") | {"metrics": {"tokens_per_s": -1.0}}) == []


def test_a_record_that_lies_is_named_and_in_no_table(tmp_path, capsys):
    made_up.store(tmp_path / "run", [run(), changed("metrics.tokens_per_s_per_device", lambda _: 123456.0)])
    found = find_records([tmp_path / "run"])
    assert len(found.records) == 1
    [sentence] = found.skipped
    assert "contradicts itself, and is left out: metrics.tokens_per_s_per_device is stored as 123456" in sentence
    assert main(["table", str(tmp_path / "run")]) == 0
    told = capsys.readouterr()
    assert "123,456" not in told.out
    assert "contradicts itself" in told.err
    assert json.loads(next((tmp_path / "run").rglob("*result.json")).read_text())
