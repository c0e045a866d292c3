"""Options of workloads whose gradients are averaged over all devices."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common import options
from benchmarks.common.options import option, positive


@dataclass(frozen=True)
class BatchOptions(options.BatchOptions):
    """Batch."""

    micro_batch_size: int | None = option(
        None, "samples of a forward pass on a device; gradients of several passes are added; default: all of a device's"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "micro_batch_size")
