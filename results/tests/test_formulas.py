"""Formulas of derived numbers, which benchmarks compute with and checks compute again with."""

from __future__ import annotations

import pytest

from record.derived import (
    SERVED,
    computed,
    flops,
    joules_per,
    of_energy,
    spread_percent,
    throughput,
    tpot,
    ttft,
)

MEASURED = {
    "measured_tokens": 8000,
    "measured_s": 4.0,
    "num_devices": 2,
    "model_flops_per_token": 6e9,
    "peak_tflops_per_device": 24.0,
    "recomputed_flops_per_token": 2e9,
    "input_tokens": 4000,
    "measured_requests": 40,
    "goodput_share": 0.5,
    "tpot_p50_s": 0.02,
    "energy_wh": 0.5,
    "window_s": 4.0,
    "output_tokens_per_request": 200,
}
DERIVED = {
    "tokens_per_s": 2000.0,
    "tokens_per_s_per_device": 1000.0,
    "tflops_per_device": 6.0,
    "mfu": 0.25,
    "hfu": 1 / 3,
    "total_tokens_per_s": 3000.0,
    "requests_per_s": 10.0,
    "goodput_requests_per_s": 5.0,
    "tokens_per_s_per_user": 50.0,
    "tokens_per_wh": 16000.0,
    "tflop_per_j": 2 * 6.0 / 450.0,
    "energy_wh_per_device": 0.25,
    "avg_power_w": 450.0,
}
EVERY = (*throughput("tokens"), *flops("tokens"), *SERVED, *of_energy("tokens", "measured"))


def test_each_derived_number_follows_from_those_before_it():
    assert computed(EVERY, MEASURED) == pytest.approx(DERIVED)


@pytest.mark.parametrize("missing", MEASURED)
def test_without_one_of_its_numbers_a_derived_number_is_missing(missing):
    found = computed(EVERY, {key: value for key, value in MEASURED.items() if key != missing})
    assert all(value is None or value == pytest.approx(DERIVED[name]) for name, value in found.items())
    used = {name for one in EVERY for name in one.inputs}
    assert (None in found.values()) == (missing in used)


def test_energy_by_work_and_times_of_requests():
    per = {"j_per_output_token": 0.225, "j_per_total_token": 0.15, "j_per_request": 45.0}
    per |= {f"{name}_half_width": 0.1 * value for name, value in per.items()}
    assert joules_per(0.5, 0.05, MEASURED) == pytest.approx(per)
    assert joules_per(0.5, 0.05, {"measured_tokens": 0}) == dict.fromkeys(per)
    assert (ttft(1.0, [1.5, 2.0, 3.0]), tpot([1.5, 2.0, 3.0], [2, 1, 2])) == (0.5, 0.5)
    assert tpot([1.5], [7]) is None
    assert spread_percent([80.0, 100.0, 90.0]) == pytest.approx(20.0)
