"""Figures of one device: products of matrices by precision, and bandwidths of memory and of the host's link."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import torch

from benchmarks.common.launch import mark
from benchmarks.common.node.gpu_ids import PCI_DEVICES
from benchmarks.common.node.out_of_memory import short_message
from benchmarks.node_check.config import ModelOptions
from benchmarks.on_pytorch.target import Target, device_ids
from jpwr.process.cgroup import quota_periods, throttled_percent
from jpwr.process.host import text_of

Call = Callable[[], Any]
Prepared = tuple[Call, float]  # a call, and its work in the numerator of the figure's unit
MATMUL = "matmul_"  # prefix of a figure's name; the precision follows
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8")
# Rows, inner dimension and columns, in multiples of the size: the best one counts.
SHAPES = ((1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (1.0, 2.0, 1.0), (0.5, 0.5, 0.5))
# Least compute capability of NVIDIA's GPUs with arithmetic in a precision (CUDA programming guide).
CAPABILITIES = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}
MOST_CALLS = 10_000  # of one repeat
LINK_FILES = {"pcie_width": "current_link_width", "pcie_speed": "current_link_speed", "numa_node": "numa_node"}


class Bench:
    """Timer of this rank's figures, which collects them."""

    def __init__(self, target: Target, options: ModelOptions) -> None:
        self.target, self.launch, self.options = target, target.launch, options
        self.figures: list[dict[str, Any]] = []

    def add(self, name: str, unit: str, scope: str = "device", **values: Any) -> None:
        """Add a figure: the rates of its repeats, or the reason for which they are missing."""
        values.setdefault("values", [])
        self.figures.append({"name": name, "unit": unit, "scope": scope, "rank": self.launch.rank} | values)

    def rates(self, call: Call, work: float, agree: Callable[[int], int] = int) -> list[float]:
        """Return the rate of each repeat: `work` of one call over its seconds.

        `agree` returns the number of calls of a repeat that all ranks of the figure make.
        """
        part_s = self.options.figure_s / self.options.repeats
        self.seconds(call, 1)  # prepares
        calls = agree(max(1, min(MOST_CALLS, round(part_s / self.seconds(call, 1)))))
        return [work * calls / self.seconds(call, calls) for _ in range(self.options.repeats)]

    def seconds(self, call: Call, calls: int) -> float:
        """Return the time of so many calls, from an idle device to an idle device."""
        self.target.synchronize()
        start_s = time.monotonic()
        for _ in range(calls):
            call()
        self.target.synchronize()
        return max(1e-9, time.monotonic() - start_s)

    def mark(self, edge: str, name: str) -> None:
        """Mark an edge ("begin", "end") of a figure for the sampler, once on each node."""
        if self.launch.is_first_on_node:
            mark(edge, f"check {name}", time.monotonic())

    def device(self, name: str, unit: str, prepare: Callable[[], Prepared]) -> None:
        """Measure a figure on all devices at the same time.

        What the device or this version of PyTorch does not support is missing, with the error as the reason.
        """
        self.target.gather(None)  # wait for all
        try:
            call, work = prepare()
            self.mark("begin", name)
            try:
                values = self.rates(call, work)
            finally:
                self.mark("end", name)
            self.add(name, unit, values=values)
        except (RuntimeError, AttributeError) as error:
            self.add(name, unit, reason=short_message(error))


def product(precision: str, shape: Sequence[int], device: torch.device) -> Call:
    """Return the product of random matrices of rows, inner dimension and columns, in a precision."""
    rows, inner, columns = shape
    if precision == "fp8":
        return _product_fp8(rows, inner, columns, device)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    # Normally distributed: constant data would take less power, and keep higher clocks.
    a, b = (torch.randn(size, device=device, dtype=dtype) for size in ((rows, inner), (inner, columns)))
    out = torch.empty((rows, columns), device=device, dtype=dtype)
    return lambda: torch.matmul(a, b, out=out)


def _product_fp8(rows: int, inner: int, columns: int, device: torch.device) -> Call:
    """Return a product of matrices in fp8, with a scale for each, whose result is in bf16."""
    architecture = getattr(torch.cuda.get_device_properties(device), "gcnArchName", "")
    # MI300 has a form of its own (ROCm documentation, precision support).
    dtype = torch.float8_e4m3fnuz if architecture.startswith("gfx94") else torch.float8_e4m3fn
    a = torch.randn((rows, inner), device=device).to(dtype)
    b = torch.randn((columns, inner), device=device).to(dtype).t()  # cuBLAS wants it by columns
    one = torch.ones((), device=device)
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def why_not(precision: str, target: Target) -> str:
    """Return why a device has no arithmetic in a precision; empty if it has, or if only a trial can tell."""
    if not target.on_gpu:
        has_bf16 = precision == "bf16" and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        return "" if precision == "fp32" or has_bf16 else f"this processor has no arithmetic in {precision}"
    if precision == "tf32" and (torch.version.hip or os.environ.get("NVIDIA_TF32_OVERRIDE") == "0"):
        return "TF32 is not available, or switched off by NVIDIA_TF32_OVERRIDE"
    least = CAPABILITIES.get(precision)
    if least and not torch.version.hip and torch.cuda.get_device_capability(target.device) < least:
        return f"this GPU has no arithmetic in {precision}"
    return ""


def measure_device(bench: Bench) -> None:
    """Measure the figures of this rank's device, at the same time as all other ranks."""
    for precision in PRECISIONS:
        bench.device(f"{MATMUL}{precision}", "TFLOP/s", partial(_best_product, bench, precision))
    count = bench.options.array_mb * 1_000_000 // 4
    for name, arrays in (("copy", 2), ("triad", 3)):  # read and written
        bench.device(name, "GB/s", partial(_memory, bench.target.device, arrays, count))
    for name, to_device in (("host_to_device", True), ("device_to_host", False)):
        bench.device(name, "GB/s", partial(_host_link, bench.target, to_device, count))


def _best_product(bench: Bench, precision: str) -> Prepared:
    """Return the fastest of SHAPES, each tried twice; raises RuntimeError for a precision that is missing."""
    if missing := why_not(precision, bench.target):
        raise RuntimeError(missing)
    found: list[tuple[float, Prepared]] = []
    for multiples in SHAPES:
        shape = [int(one * bench.options.size) for one in multiples]
        call, work = product(precision, shape, bench.target.device), 2e-12 * math.prod(shape)
        bench.seconds(call, 1)
        found.append((work / bench.seconds(call, 2), (call, work)))
    return max(found, key=itemgetter(0))[1]


def _memory(device: torch.device, arrays: int, count: int) -> Prepared:
    """Return the copy of an array, or with three arrays the triad a = b + 3 c (McCalpin's STREAM)."""
    a, b, c = (torch.rand(count, device=device) for _ in range(3))
    call = partial(a.copy_, b) if arrays == 2 else partial(torch.add, b, c, alpha=3.0, out=a)
    return call, 4e-9 * arrays * count


def _host_link(target: Target, to_device: bool, count: int) -> Prepared:
    """Return a copy between page-locked memory of the host and the device; raises RuntimeError on a CPU."""
    if not target.on_gpu:
        raise RuntimeError("the device is the host")
    ends = torch.empty(count).pin_memory(), torch.empty(count, device=target.device)
    source, to = ends if to_device else ends[::-1]
    return partial(to.copy_, source, non_blocking=True), 4e-9 * count


def device_facts(target: Target) -> Callable[[], dict[str, Any]]:
    """Return a function that describes this rank's device: its link to the host, and its CPUs since this call."""
    before = quota_periods()

    def facts() -> dict[str, Any]:
        throttled = throttled_percent([(before, quota_periods())])
        found: dict[str, Any] = {"rank": target.launch.rank, "cpu_throttled_percent": throttled}
        ids = device_ids(torch.cuda.get_device_properties(target.device)) if target.on_gpu else ""
        for name, file in LINK_FILES.items():
            found[name] = next(filter(None, (text_of(PCI_DEVICES / one.lower() / file) for one in ids.split())), None)
        return found

    return facts
