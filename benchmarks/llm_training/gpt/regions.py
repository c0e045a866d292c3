"""Map megatron-core's regions to those of the suite, without the synchronization of its own timers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from megatron.core.distributed import param_and_grad_buffer
from megatron.core.tensor_parallel import layers, mappings, utils

from benchmarks.on_pytorch.communication import MarkedWork, end_of
from jpwr.regions import RegionTimer
from jpwr.regions.times import BACKWARD, COMM, FORWARD, UPDATE

# By the beginning of megatron-core's names, or else by their end; others, such as forward-backward, contain these.
BEGINNINGS = {"forward-compute": FORWARD, "backward-compute": BACKWARD, "optimizer-": UPDATE, "params-all-gather": COMM}
MODULES = (param_and_grad_buffer, layers, mappings, utils)  # of tensor parallelism and norms, with collectives
ENDINGS = {"-recv": COMM, "-send": COMM, "-grads-sync": COMM, "-all-reduce": COMM}


class MegatronTimer:
    """Timer of one of megatron-core's regions; does nothing without a region of the suite."""

    def __init__(self, timer: RegionTimer, name: str, log_level: int | None = None) -> None:
        self._timer, self._key = timer, region_of(name)

    def start(self, barrier: bool = False) -> None:
        """Start the region; a barrier would change the measurement and is ignored."""
        if self._key:
            self._timer.start(self._key)

    def stop(self, barrier: bool = False) -> None:
        """End the region."""
        if self._key:
            self._timer.end(self._key)


@cache
def region_of(name: str) -> str | None:
    """Return the suite's region for a region of megatron-core; None without one."""
    for beginning, key in BEGINNINGS.items():
        if name.startswith(beginning):
            return key
    return next((key for ending, key in ENDINGS.items() if name.endswith(ending)), None)


def mark_overlapped_sums(timer: RegionTimer, model: Any, on_gpu: bool) -> None:
    """Mark overlapped sums of gradients and gathers of weights on the lane of communication."""
    for group in [*model.bucket_groups, *model.expert_parallel_bucket_groups]:
        for start, handle in (("start_grad_sync", "grad_reduce_handle"), ("start_param_sync", "param_gather_handle")):
            setattr(group, start, _started(timer, group, getattr(group, start), handle, on_gpu))


def _started(
    timer: RegionTimer, group: Any, start: Callable[..., Any], handle: str, on_gpu: bool
) -> Callable[..., Any]:
    def marked(*args: Any, **options: Any) -> Any:
        if not timer.recording:
            return start(*args, **options)
        before, began = getattr(group, handle), timer.moment()
        result = start(*args, **options)
        started = getattr(group, handle)
        if started is not None and started is not before:
            works = getattr(started, "works", [started])
            setattr(group, handle, MarkedWork(timer, started, began, end_of(timer, works, on_gpu)))
        return result

    return marked
