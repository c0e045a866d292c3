"""Optimizer steps of any model on this rank's device, with gradients that are averaged over all ranks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from benchmarks.on_pytorch.communication import LANE, end_of
from benchmarks.on_pytorch.target import Target
from jpwr.regions import Moment, RegionTimer
from jpwr.regions.times import BACKWARD, COMM, FORWARD, UPDATE

BUFFERS = "forward_sync_buffers", "broadcast_buffers"  # names of one option, first in newer versions of PyTorch
KNOWN = signature(DistributedDataParallel).parameters
NO_BUFFERS: dict[str, Any] = {next(name for name in BUFFERS if name in KNOWN): False}  # each rank has its own
Pass = tuple[Tensor, Tensor]  # samples and labels of one forward pass, on the device


class Trainer:
    """Optimizer steps of one or more passes each, whose gradients are added."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_of: Callable[[Tensor, Tensor], Tensor],
        learning_rate: Callable[[int], float],
        passes: int,
        target: Target,
        regions: RegionTimer,
        compiled: bool = False,
    ) -> None:
        """`loss_of` returns the mean loss of a pass from outputs and labels; `learning_rate` takes a step, from 0.

        The model is compiled with its sums of gradients, so that these overlap with the backward pass.
        """
        self.optimizer, self.loss_of, self._learning_rate = optimizer, loss_of, learning_rate
        self.model, self.passes, self._target, self._regions = model, passes, target, regions
        self._losses: list[Tensor] = []  # of every step, on the device
        self.scaler = torch.amp.GradScaler(target.device.type, enabled=target.precision == "fp16")  # type: ignore[attr-defined]
        self._sums: list[tuple[Moment, Callable[[], Moment | None]]] = []  # in progress: their beginnings and ends
        self._last_ready: Moment | None = None  # of the gradients
        self._replica: Any = model
        if target.launch.world_size > 1:
            devices = [target.device.index] if target.on_gpu else None
            self._replica = DistributedDataParallel(model, devices, **NO_BUFFERS, gradient_as_bucket_view=True)
            self._replica.register_comm_hook(None, lambda state, bucket: self._average(bucket))
        self._forward: Any = torch.compile(self._replica) if compiled else self._replica

    def step(self, passes: Iterable[Pass]) -> None:
        """Make one optimizer step over this rank's part of a global batch; its loss is kept on the device."""
        self.optimizer.zero_grad()
        losses = []
        for number, (samples, labels) in enumerate(passes, 1):
            is_last = number == self.passes
            synchronizes = self._replica is self.model or is_last
            with nullcontext() if synchronizes else self._replica.no_sync():
                with self._regions.region(FORWARD), self._in_precision():
                    loss = self.loss_of(self._forward(samples), labels) / self.passes
                with self._regions.region(BACKWARD):
                    self.scaler.scale(loss).backward()
                    self._mark_sums()
            losses.append(loss.detach())
        with self._regions.region(UPDATE):
            for group in self.optimizer.param_groups:
                group["lr"] = self._learning_rate(len(self._losses))
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self._losses.append(torch.stack(losses).sum())

    def losses(self, first: int = 0) -> list[float]:
        """Return the losses of all steps from `first` on, as means over all ranks, on every rank."""
        of_ranks = self._target.gather([float(loss) for loss in self._losses[first:]])
        return [statistics.fmean(of_step) for of_step in zip(*of_ranks, strict=True)]

    def _in_precision(self) -> Any:
        dtype = self._target.dtype
        return torch.autocast(self._target.device.type, dtype, enabled=dtype != torch.float32)

    def _average(self, bucket: Any) -> torch.futures.Future[Tensor]:
        """Average a bucket of ready gradients for DistributedDataParallel; keep its times while recording regions."""
        timer = self._regions
        started = timer.moment() if timer.recording else None
        work: Any = dist.all_reduce(bucket.buffer().div_(self._target.launch.world_size), async_op=True)
        if started:
            self._sums.append((started, end_of(timer, [work], self._target.on_gpu)))
            if bucket.is_last():
                self._last_ready = timer.moment()
        averaged: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
        return averaged

    def _mark_sums(self) -> None:
        """Add the sums of gradients as Comm on a lane; after the last gradient, the backward pass itself is in Comm."""
        if not self._sums:
            return
        now = self._regions.moment()
        for started, ended in self._sums:
            self._regions.add(COMM, LANE, started, ended() or now)
        if self._last_ready:
            self._regions.add(COMM, self._regions.lane, self._last_ready, now)
        self._sums, self._last_ready = [], None


def rising_rate(highest: float, steps: int) -> Callable[[int], float]:
    """Return a learning rate that rises linearly over the warm-up steps to the highest, and stays there."""
    return lambda step: highest * min(1.0, (step + 1) / steps)
