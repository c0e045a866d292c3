"""Arithmetic of the figures, and options that no check can have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.node_check.config import ModelOptions
from benchmarks.node_check.figures import Bench, product, why_not
from benchmarks.node_check.messages import all_gather_share, all_reduce_share, rounds, sizes_bytes


def test_bus_bandwidths_are_those_of_nccl_tests():
    # nccl-tests, doc/PERFORMANCE.md: 2 (n - 1) / n of an all-reduce, (n - 1) / n of an all-gather.
    assert [all_reduce_share(ranks) for ranks in (2, 4, 8)] == [1.0, 1.5, 1.75]
    assert [all_gather_share(ranks) for ranks in (2, 4, 8)] == [0.5, 0.75, 0.875]


def test_messages_grow_up_to_the_largest():
    assert sizes_bytes(1) == [8, 512, 32768, 1_000_000]
    assert sizes_bytes(512)[-2:] == [134_217_728, 512_000_000]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9])
def test_each_link_of_a_ring_is_measured_once_and_a_device_on_one_link_at_a_time(count):
    found = rounds(count)
    pairs = [frozenset(pair) for one in found for pair in one]
    assert len(pairs) == len(set(pairs)) == (1 if count == 2 else count)
    assert set().union(*pairs) == set(range(count))
    for one in found:
        places = [place for pair in one for place in pair]
        assert len(places) == len(set(places))


class Slow(Bench):
    """A bench whose calls take a known time each."""

    def __init__(self, call_s):
        target = SimpleNamespace(launch=Launch(), gather=lambda value: [value])
        super().__init__(target, ModelOptions(figure_s=1.0, repeats=10))
        self.call_s, self.made = call_s, []

    def seconds(self, call, calls):
        self.made.append(calls)
        return self.call_s * calls


def test_a_rate_is_the_work_of_its_calls_over_their_time():
    bench = Slow(0.02)
    assert bench.rates(lambda: None, 3.0) == pytest.approx([150.0] * 10)
    assert bench.made == [1, 1] + [5] * 10  # a tenth of the figure's time each


def test_ranks_that_share_a_figure_make_the_same_number_of_calls():
    bench = Slow(0.02)
    bench.rates(lambda: None, 3.0, agree=lambda calls: min(calls, 2))
    assert bench.made[2:] == [2] * 10


def test_a_figure_has_its_median_with_an_interval_or_a_reason():
    bench = Slow(0.02)
    bench.device("copy", "GB/s", lambda: (lambda: None, 4.0))
    bench.device("matmul_fp8", "TFLOP/s", lambda: torch.nonsense)
    good, bad = bench.figures
    assert good["values"] == pytest.approx([200.0] * 10)
    assert bad["values"] == []
    assert "nonsense" in bad["reason"]


def test_medians_are_over_devices_with_the_largest_message():
    sent = [{"name": "send_node", "unit": "GB/s", "bytes": size, "values": [rate]} for size, rate in ((8, 1), (64, 7))]
    rates = ([1.0], [], [2.0, 3.0, 1.0], [9.0])  # of four devices
    devices = [{"name": "matmul_bf16", "unit": "TFLOP/s", "values": values} for values in rates]
    record = RunRecord("node_check", "s", "m", "products", {}, "ok", node_check={"figures": [*sent, *devices]})
    metrics = record.derived().metrics
    assert (metrics.number("send_node_gb_per_s"), metrics.number("matmul_bf16_tflops")) == (7, 2.0)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_a_product_is_in_its_precision(precision, dtype):
    out = product(precision, (32, 64, 96), torch.device("cpu"))()
    assert (out.dtype, tuple(out.shape)) == (dtype, (32, 96))


def test_what_a_device_lacks_has_a_reason(monkeypatch):
    cpu = SimpleNamespace(on_gpu=False)
    gpu = SimpleNamespace(on_gpu=True, device=0)
    assert why_not("fp32", cpu) == ""
    assert why_not("fp8", cpu) == "this processor has no arithmetic in fp8"
    for capability, missing in (((7, 0), {"tf32", "bf16", "fp8"}), ((8, 0), {"fp8"}), ((9, 0), set())):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert {name for name in ("fp32", "tf32", "bf16", "fp16", "fp8") if why_not(name, gpu)} == missing
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert "NVIDIA_TF32_OVERRIDE" in why_not("tf32", gpu)
