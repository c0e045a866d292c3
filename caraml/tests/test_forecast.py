"""What a sweep will take, by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from caraml.plan.forecast import ASSUMED_MFU, START_S, forecast
from caraml.plan.site import Site, read_site
from caraml.plan.workloads import Workload
from results.files.systems import read_systems
from results.files.workloads import Facts, workloads

BLOCK = replace(
    read_systems()["A100"],
    devices_per_node=4,
    devices_sweep="1 8",
    default_repeats=2,
    default_precision="bf16",
    peak_tflops_bf16=1,
    submit="sbatch",
    vendor="made up",
    tdp_w_per_device=250,
    warmup_steps=1,
    measured_steps=2,
    min_measured_s=5,
    values={},
)
SITE = Site()


def made_up(**values):
    """A step of batch N takes N seconds on one device."""
    known = {
        "facts": Facts(
            "sums", "Sums", "numbers", "pytorch", "made_up", model="small", batches="2 80", max_measured_s=100
        ),
        "flops_per_sample": lambda block, model: 1e12 * ASSUMED_MFU,
        "devices_needed": lambda model: 1,
        "least_devices": lambda block, model, words: 1,
        "run_s": lambda *point: None,
        "check_point": lambda *point, **layout: None,
    }
    return SimpleNamespace(**{**known, **values})


def test_node_hours_and_energy_are_those_of_all_runs():
    found = forecast(made_up(), BLOCK, SITE)
    assert (found.points, found.runs) == (4, 8)
    # Warm-up and window: one device, then eight of two nodes; 2 x 80 s end at 100 s, and 2 x 2 s are less than 5 s.
    node_s = 2 * ((START_S + 2 + 5) + (START_S + 80 + 100) + 2 * (START_S + 0.25 + 5) + 2 * (START_S + 10 + 20))
    assert found.node_hours == pytest.approx(node_s / 3600)
    assert found.energy_kwh == pytest.approx(node_s / 3600)  # nodes of four devices of 250 W
    assert "4 jobs with 8 runs, about " in str(found)


def test_what_the_figures_do_not_tell_is_not_made_up():
    assert "duration unknown" in str(forecast(made_up(), replace(BLOCK, peak_tflops_bf16=0), SITE))
    assert "duration unknown" in str(forecast(made_up(flops_per_sample=lambda block, model: 0.0), BLOCK, SITE))
    assert str(forecast(made_up(), BLOCK, SITE)).startswith("small: 4 jobs")
    no_model = replace(made_up().facts, model="")
    assert str(forecast(made_up(facts=no_model), BLOCK, SITE)).startswith("4 jobs")
    assert "kWh" not in str(forecast(made_up(), replace(BLOCK, tdp_w_per_device=0), SITE))


def test_a_narrowed_sweep_is_forecast():
    found = forecast(made_up(), BLOCK, replace(SITE, devices="4", batches="16"))
    assert (found.points, found.runs) == (1, 2)


def test_every_workload_can_be_forecast_on_every_system():
    for name, block in read_systems().items():
        for facts in workloads().values():
            assert forecast(Workload(facts), block, read_site(name)).points > 0


def test_a_node_check_is_forecast_from_its_products_and_figures():
    block = replace(read_systems()["A100"], warmup_steps=1, measured_steps=2, min_measured_s=0, default_repeats=1)
    found = forecast(Workload(workloads()["node_check"]), block, SITE)
    step_s = 64 * 2 * 8192**3 / (312e12 * ASSUMED_MFU)
    assert found.node_hours == pytest.approx((START_S + 3 * step_s + 12 * 2.0) / 3600)


def test_a_server_is_forecast_by_its_requests_or_by_its_window():
    known = Workload(workloads()["llm_inference"])
    block = replace(read_systems()["A100"], default_repeats=1, default_precision="bf16")
    weights = 8_030_261_248  # of Llama 3.1 8B, as its model card counts them
    read_s = 2 * weights / 1555e9
    request_s = 1024 * 2 * weights / (312e12 * ASSUMED_MFU) + 1024 * read_s
    alone = forecast(known, block, replace(SITE, batches="1"))
    assert alone.node_hours == pytest.approx((START_S + 129 * request_s) / 3600, rel=1e-3)
    short = replace(block, values={**block.values, "input_tokens": 1, "output_tokens": 1})
    assert forecast(known, short, replace(SITE, batches="64")).node_hours == pytest.approx(150 / 3600, rel=2e-3)


def test_a_peak_of_0_gives_no_duration_of_any_workload():
    for facts in workloads().values():
        assert forecast(Workload(facts), read_systems()["CPU"], SITE).node_hours is None
