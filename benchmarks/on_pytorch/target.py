"""Device of a process under PyTorch, with the same calls on CPUs and GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.common import workload
from benchmarks.common.launch import Launch, check_gpus, described_device, peak_memory_bytes
from benchmarks.common.options import NARROW, ComputeOptions, ConfigError, precision_on_gpu
from benchmarks.common.record import Device
from jpwr.regions import TorchEvent

COLLECTIVE_TIMEOUT = timedelta(minutes=10)
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, **dict.fromkeys(("bf16", *NARROW), torch.bfloat16)}


@dataclass(frozen=True)
class Target(workload.Target):
    """Device of this process."""

    kind: str  # gpu or cpu
    device: torch.device
    precision: str
    launch: Launch = Launch()

    has_profiler = True

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.kind == "gpu"

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the computation."""
        return DTYPES[self.precision]

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        if self.on_gpu:
            torch.cuda.synchronize()

    @property
    def record_event(self) -> type[TorchEvent] | None:
        """Type that records an event on the device; None on a CPU, where the host never runs ahead."""
        return TorchEvent if self.on_gpu else None

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order, on every rank; a value is any object that pickles."""
        values: list[Any] = [None] * self.launch.world_size
        dist.all_gather_object(values, value)
        return values

    def describe_devices(self) -> list[Device]:
        """Return this process's device with its peak memory: of the GPU, or of the process on a CPU."""
        if not self.on_gpu:
            name = f"CPU, {torch.get_num_threads()} threads"
            return [described_device(self.launch, name, peak_memory_bytes=peak_memory_bytes())]
        properties, peak_bytes = torch.cuda.get_device_properties(self.device), torch.cuda.max_memory_allocated()
        return [described_device(self.launch, properties.name, device_ids(properties), peak_bytes)]

    def software(self) -> dict[str, Any]:
        """Return the versions of PyTorch's compute and communication libraries; None for one it was built without."""
        nccl = torch.cuda.nccl.version() if self.on_gpu else None  # type: ignore[no-untyped-call]
        return {
            "cuda": torch.version.cuda,
            "rocm": torch.version.hip,
            "cudnn": torch.backends.cudnn.version() if self.on_gpu else None,
            "nccl": ".".join(map(str, nccl)) if nccl else None,  # RCCL's, under ROCm
        }

    def profile(self, folder: Path) -> AbstractContextManager[object]:
        """Return PyTorch's profiler of the host and a GPU, which writes into a folder."""
        from torch import profiler

        activities = [profiler.ProfilerActivity.CPU, *([profiler.ProfilerActivity.CUDA] if self.on_gpu else [])]
        return profiler.profile(activities=activities, on_trace_ready=profiler.tensorboard_trace_handler(str(folder)))

    def statistics(self) -> dict[str, int | None]:
        """Return statistics of PyTorch's caching allocator on this rank's GPU; None on a CPU, which has none."""
        names = {
            "peak_reserved_bytes": "reserved_bytes.all.peak",
            "peak_allocated_bytes": "allocated_bytes.all.peak",
            "allocation_retries": "num_alloc_retries",
        }
        found = torch.cuda.memory_stats(self.device) if self.on_gpu else {}
        return {name: found.get(key) for name, key in names.items()}


def choose_target(options: ComputeOptions, launch: Launch) -> Target:
    """Return the GPU of this process's local rank, or its share of the CPU; raises ConfigError if unavailable."""
    precision = options.precision
    on_gpu = options.device != "cpu" and torch.cuda.is_available()
    check_gpus(options.device, torch.cuda.device_count() if on_gpu else 0, launch, "PyTorch")
    if on_gpu:
        torch.cuda.set_device(launch.local_rank)
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        precision = precision_on_gpu(precision, has_bf16, torch.cuda.get_device_name())
        return Target("gpu", torch.device("cuda", launch.local_rank), precision, launch)
    if precision in ("fp16", *NARROW):
        raise ConfigError(f"--precision {precision} was asked for, but only GPUs have it: use bf16 or fp32")
    torch.set_num_threads(options.threads or launch.own_cores)
    return Target("cpu", torch.device("cpu"), "fp32" if precision == "auto" else precision, launch)


@contextmanager
def process_group(target: Target) -> Iterator[None]:
    """Set up PyTorch's default process group until the end of the block."""
    backend = "nccl" if target.on_gpu else "gloo"
    if target.launch.world_size > 1:
        dist.init_process_group(backend, timeout=COLLECTIVE_TIMEOUT)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dist.destroy_process_group()


def device_ids(properties: Any) -> str:
    """Return the UUID and the PCI address of a GPU, as far as this version of PyTorch has them."""
    found = []
    if getattr(properties, "uuid", None):
        found.append(f"GPU-{properties.uuid}")
    if hasattr(properties, "pci_bus_id"):
        address = properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id
        found.append("{:04x}:{:02x}:{:02x}.0".format(*address))
    return " ".join(found)
