"""Options of workloads on PyTorch whose gradients are averaged over all devices."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common.options import option, positive


@dataclass(frozen=True)
class BatchOptions:
    """Batch."""

    global_batch_size: int = option(2, "samples per optimizer step, over all devices")
    micro_batch_size: int | None = option(
        None, "samples of a forward pass on a device; gradients of several are added up; default: all of a device's"
    )

    def __post_init__(self) -> None:
        positive(self, "global_batch_size", "micro_batch_size")
