"""State of GPT training, written and read by megatron-core's distributed checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.distributed import DistributedDataParallel

from benchmarks.common.launch import peak_memory_bytes
from benchmarks.llm_training.gpt.optimizer import CpuOptimizer, MegatronOptimizer
from benchmarks.on_pytorch.state import Tensors

# Each rank writes its share of the optimizer's state as it has it, without a gathering over the replicas.
METADATA = {"distrib_optim_sharding_type": "dp_reshardable"}
# Its own function, for a log, needs psutil, which is not among its dependencies.
filesystem_async._process_memory = peak_memory_bytes


class State(Tensors):
    """Weights and optimizer of this rank; without dropout, a random state changes nothing."""

    def __init__(self, model: DistributedDataParallel, optimizer: MegatronOptimizer | CpuOptimizer) -> None:
        self._model, self._optimizer = model, optimizer

    def checksum(self) -> str:
        """Return a checksum of this rank's whole state."""
        self._gather_weights()
        return super().checksum()

    def save(self, folder: Path) -> None:
        """Write into a new folder."""
        dist_checkpointing.save(self._sharded(), str(folder))

    def load(self, folder: Path) -> None:
        """Read from a folder."""
        state = dist_checkpointing.load(self._sharded(is_loading=True), str(folder))
        self._model.module.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])

    def _gather_weights(self) -> None:
        """Gather the weights that megatron-core would gather in the next forward pass only."""
        if self._model.ddp_config.overlap_param_gather:
            self._model.start_param_sync(force_sync=True)

    def _sharded(self, is_loading: bool = False) -> dict[str, Any]:
        self._gather_weights()
        model = self._model.module.sharded_state_dict(metadata=METADATA)
        return {"model": model, "optimizer": self._optimizer.sharded_state_dict(model, is_loading, METADATA)}

    def _tensors(self) -> Iterator[torch.Tensor]:
        yield from self._model.module.parameters()
        yield from self._optimizer.tensors()
