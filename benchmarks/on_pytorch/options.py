"""Options of workloads whose gradients are averaged over all devices."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common import options
from benchmarks.common.options import option


@dataclass(frozen=True)
class BatchOptions(options.BatchOptions):
    """Batch."""

    micro_batch_size: int | None = option(
        None, "samples of a forward pass on a device; gradients of several passes are added; default: all of a device's"
    )


@dataclass(frozen=True)
class TrainingOptions(options.TrainingOptions):
    """Training."""

    weight_decay: float = option(0.01, "decoupled weight decay of Adam", least=0)
