"""Devices, process groups and the distributed model: the same calls on CPUs and GPUs."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

from benchmarks.common.launch import Launch, node_name, process_group, usable_cores, usable_cpus
from benchmarks.common.options import ConfigError
from benchmarks.common.record import Device
from benchmarks.llm_training import cpu_stand_ins
from benchmarks.llm_training.config import Layout

# In fp8 only the layers multiply.
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16}


@dataclass(frozen=True)
class Target:
    """What this process computes on."""

    on_gpu: bool
    device: torch.device
    precision: str

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.precision]

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def record_event(self) -> DeviceEvent:
        """A moment in the device's own time."""
        return DeviceEvent()


class DeviceEvent:
    """A CUDA or HIP event on the current stream."""

    def __init__(self) -> None:
        self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._event.record()

    def elapsed_s(self, since: DeviceEvent) -> float:
        """Seconds since an earlier event; both must have passed."""
        return float(since._event.elapsed_time(self._event)) / 1000  # PyTorch reports milliseconds


def choose_target(launch: Launch, device: str, precision: str, threads: int | None) -> Target:
    """The GPU of this process's local rank, or its share of the CPU; raises ConfigError for what is not there."""
    on_gpu = device != "cpu" and torch.cuda.is_available()
    if device == "gpu" and not on_gpu:
        raise ConfigError(
            "--device gpu was asked for, but PyTorch shows none: use a build for your GPUs, or --device cpu"
        )
    if on_gpu:
        if launch.local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"{launch.local_world_size} processes were started on a node that shows {torch.cuda.device_count()} "
                "GPUs: start one process per GPU"
            )
        torch.cuda.set_device(launch.local_rank)
        if precision in ("bf16", "fp8") and not torch.cuda.is_bf16_supported():
            raise ConfigError(
                f"--precision {precision} was asked for, but {torch.cuda.get_device_name()} has none: use fp16 or fp32"
            )
        return Target(True, torch.device("cuda", launch.local_rank), "bf16" if precision == "auto" else precision)
    if precision in ("fp16", "fp8"):
        raise ConfigError(f"--precision {precision} was asked for, but that is there on GPUs only: use bf16 or fp32")
    torch.set_num_threads(threads or max(1, usable_cores() // launch.local_world_size))
    cpu_stand_ins.install()
    return Target(False, torch.device("cpu"), "fp32" if precision == "auto" else precision)


@contextmanager
def parallel_groups(
    launch: Launch, target: Target, layout: Layout, seed: int, cuda_graph: bool = False
) -> Iterator[None]:
    """megatron-core's process groups for as long as the block lasts; a graph needs random states that go with it."""
    with process_group(launch, "nccl" if target.on_gpu else "gloo"):
        parallel_state.initialize_model_parallel(
            layout.tensor_parallel_size, layout.pipeline_parallel_size, create_gloo_process_groups=False
        )
        torch.manual_seed(seed)
        model_parallel_cuda_manual_seed(seed, use_cudagraphable_rng=cuda_graph)
        try:
            yield
        finally:
            parallel_state.destroy_model_parallel()


def distribute(
    model: GPTModel, config: TransformerConfig, target: Target, overlap: bool, gather_late: bool
) -> DistributedDataParallel:
    """megatron-core's data parallelism around the model; gradients are summed in float32.

    On GPUs each replica keeps its share of the optimizer's state. With `overlap` gradients are summed as they come,
    and, on GPUs with `gather_late`, weights are gathered layer by layer as the next forward pass needs them.
    """
    ddp_config = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        overlap_grad_reduce=overlap,
        use_distributed_optimizer=target.on_gpu,
        overlap_param_gather=overlap and gather_late and target.on_gpu,
    )
    distributed = DistributedDataParallel(config, ddp_config, model)
    config.finalize_model_grads_func = finalize_model_grads
    config.no_sync_func = distributed.no_sync if overlap else None
    return distributed


def allocator_statistics(target: Target) -> dict[str, int | None]:
    """Of PyTorch's caching allocator on this rank's GPU; null on a CPU, which has none."""
    names = {
        "peak_reserved_bytes": "reserved_bytes.all.peak",
        "peak_allocated_bytes": "allocated_bytes.all.peak",
        "allocation_retries": "num_alloc_retries",
    }
    found = torch.cuda.memory_stats(target.device) if target.on_gpu else {}
    return {name: found.get(key) for name, key in names.items()}


def average_losses(losses: list[torch.Tensor], device: torch.device) -> list[float]:
    """The mean loss of each step over all replicas, on every rank; only the last pipeline stage brings losses."""
    steps = len(losses)
    mean = torch.stack(losses).float() if losses else torch.zeros(0, device=device)
    count = torch.tensor([steps], device=device)
    torch.distributed.all_reduce(count, torch.distributed.ReduceOp.MAX)
    if not steps:
        mean = torch.zeros(int(count), device=device)
    else:
        torch.distributed.all_reduce(mean, group=parallel_state.get_data_parallel_group())
        mean /= parallel_state.get_data_parallel_world_size()
    if parallel_state.get_pipeline_model_parallel_world_size() > 1:
        torch.distributed.broadcast(
            mean,
            parallel_state.get_pipeline_model_parallel_last_rank(),
            group=parallel_state.get_pipeline_model_parallel_group(),
        )
    return [float(loss) for loss in mean]


def describe_device(launch: Launch, target: Target) -> Device:
    """This process's device and the most memory it held: the GPU's own, or the process's on a CPU."""
    hostname = node_name()
    if target.on_gpu:
        properties = torch.cuda.get_device_properties(target.device)
        peak_bytes = torch.cuda.max_memory_allocated(target.device)
        return Device(hostname, launch.rank, properties.name, device_ids(properties), peak_bytes, usable_cpus())
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux reports KiB
    name = f"CPU, {torch.get_num_threads()} threads"
    return Device(hostname, launch.rank, name, "", peak_bytes, usable_cpus())


def device_ids(properties: Any) -> str:
    """The UUID of a GPU and its PCI address, as PyTorch has them; older versions lack one or both."""
    found = []
    if getattr(properties, "uuid", None):
        found.append(f"GPU-{properties.uuid}")
    if hasattr(properties, "pci_bus_id"):
        address = properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id
        found.append("{:04x}:{:02x}:{:02x}.0".format(*address))
    return " ".join(found)


def software(target: Target) -> dict[str, Any]:
    """What PyTorch computes and communicates with: versions, null for what it was built without."""
    on_gpu = target.on_gpu
    nccl = torch.cuda.nccl.version() if on_gpu else None  # type: ignore[no-untyped-call]
    return {
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "cudnn": torch.backends.cudnn.version() if on_gpu else None,
        "nccl": ".".join(map(str, nccl)) if nccl else None,  # RCCL's, under ROCm
    }
