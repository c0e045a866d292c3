"""State of GPT training, written and read by megatron-core's distributed checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.dist_checkpointing.strategies.async_utils import AsyncCallsQueue
from megatron.core.distributed import DistributedDataParallel

from benchmarks.common.launch import peak_memory_bytes
from benchmarks.llm_training.gpt.optimizer import CpuOptimizer, MegatronOptimizer
from benchmarks.on_pytorch.state import checksum, size_bytes

# Each rank writes its share of the optimizer's state as it has it, without a gathering over the replicas.
METADATA = {"distrib_optim_sharding_type": "dp_reshardable"}
# Its own function, for a log, needs psutil, which is not among its dependencies.
filesystem_async._process_memory = peak_memory_bytes


class Steps(Protocol):
    """Training that counts its steps."""

    @property
    def steps(self) -> int:
        """Optimizer steps made, with those before a restored checkpoint."""

    def forget(self, steps: int) -> None:
        """Forget the losses of all but this number of steps."""


class State:
    """Weights and optimizer of this rank; without dropout, a random state changes nothing."""

    def __init__(
        self, model: DistributedDataParallel, optimizer: MegatronOptimizer | CpuOptimizer, trainer: Steps
    ) -> None:
        self._model, self._optimizer, self._trainer = model, optimizer, trainer
        self._writing = AsyncCallsQueue()

    @property
    def steps(self) -> int:
        """Optimizer steps made, with those before a restored checkpoint."""
        return self._trainer.steps

    @property
    def size_bytes(self) -> int:
        """Bytes of this rank's weights and optimizer."""
        return size_bytes(self._tensors())

    def checksum(self) -> str:
        """Return a checksum of all bits of this rank's weights and optimizer."""
        return checksum(self._tensors())

    def save(self, folder: Path) -> None:
        """Write into a new folder."""
        dist_checkpointing.save(self._sharded(), str(folder))

    def start_saving(self, folder: Path) -> Callable[[bool], bool]:
        """Copy the state to the host, and write it in a process that is forked from this one."""
        request = dist_checkpointing.save(self._sharded(), str(folder), async_sharded_save=True)
        self._writing.schedule_async_request(request)

        def finish(wait: bool) -> bool:
            self._writing.maybe_finalize_async_calls(blocking=wait)
            return not self._writing.get_num_unfinalized_calls()

        return finish

    def load(self, folder: Path, steps: int) -> None:
        """Read from a folder the state after a number of steps, and forget the losses of later ones."""
        state = dist_checkpointing.load(self._sharded(is_loading=True), str(folder))
        self._model.module.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._trainer.forget(steps)

    def _sharded(self, is_loading: bool = False) -> dict[str, Any]:
        model = self._model.module.sharded_state_dict(metadata=METADATA)
        return {"model": model, "optimizer": self._optimizer.sharded_state_dict(model, is_loading, METADATA)}

    def _tensors(self) -> Iterator[torch.Tensor]:
        yield from self._model.module.parameters()
        yield from self._optimizer.tensors()
