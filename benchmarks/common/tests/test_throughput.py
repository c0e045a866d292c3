from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.common.facts import Flops
from benchmarks.common.launch import node_window
from benchmarks.common.measure.measured import work_metrics
from benchmarks.common.record import RunRecord

LAYOUT = {"num_devices": 2, "num_nodes": 1, "global_batch_size": 160, "work_per_sample": 1}


@pytest.mark.parametrize(("peak", "mfu"), [(2000.0, 0.1), (0.0, None)])
def test_metrics_are_those_of_the_work_and_the_time_of_the_window(peak, mfu):
    run = SimpleNamespace(unit="image", flops=Flops(8e12, "a paper"))
    record = RunRecord("b", "s", "m", "images", {"run": {"peak_tflops_per_device": peak}}, "ok", layout=LAYOUT)
    record.metrics, record.windows = work_metrics(run, 5), [node_window(3.0, 19.0)]
    record.step_times_s = [1.0, 2.0, 3.0, 4.0, 5.0]  # 15 s of steps in a window of 16 s
    assert record.to_dict()["metrics"] == {
        "measured_steps": 5,
        "model_flops_per_image": 8e12,
        "model_flops_source": "a paper",
    }
    derived = vars(record.derived().metrics)
    expected = {
        "measured_images": 800,
        "images_per_s": 50.0,
        "images_per_s_per_device": 25.0,
        "step_time_median_s": 3.0,
        "step_time_p5_s": pytest.approx(1.2),
        "step_time_p95_s": pytest.approx(4.8),
        "tflops_per_device": pytest.approx(200.0, rel=1e-13),
        "peak_tflops_per_device": peak or None,
        "mfu": mfu and pytest.approx(mfu, rel=1e-12),
        "hfu": None,  # what is recomputed is known of GPT alone
    }
    assert {name: derived.get(name) for name in expected} == expected
