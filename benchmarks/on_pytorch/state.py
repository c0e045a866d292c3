"""State of a training on PyTorch, written and read by torch.distributed.checkpoint."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from benchmarks.on_pytorch.trainer import Trainer


class Tensors(ABC):
    """State whose tensors are all known."""

    @abstractmethod
    def _tensors(self) -> Iterator[Tensor]: ...

    @property
    def size_bytes(self) -> int:
        """Bytes of this rank's weights and optimizer."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._tensors())

    def checksum(self) -> str:
        """Return a checksum of this rank's state, whose bits are added on the device as integers, in any order."""
        sums = [int(tensor.detach().reshape(-1).view(torch.uint8).sum(dtype=torch.int64)) for tensor in self._tensors()]
        return hashlib.sha256(repr(sums).encode()).hexdigest()


class State(Tensors):
    """Weights, optimizer and gradient scaler of a Trainer."""

    def __init__(self, trainer: Trainer, rank: int) -> None:
        self._trainer = trainer
        self._of_rank = f"buffers of rank {rank}"  # of which each has its own, as statistics of batches

    def save(self, folder: Path) -> None:
        """Write into a new folder; the library syncs its files."""
        save(self._state(), storage_writer=FileSystemWriter(folder))

    def load(self, folder: Path) -> None:
        """Read from a folder."""
        trainer, state = self._trainer, self._state()
        load(state, storage_reader=FileSystemReader(folder))
        set_state_dict(
            trainer.model,
            trainer.optimizer,
            model_state_dict=state["model"] | state[self._of_rank],
            optim_state_dict=state["optimizer"],
        )
        trainer.scaler.load_state_dict(state["scaler"])

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self._trainer.model, self._trainer.optimizer)
        own = {name: model.pop(name) for name, _ in self._trainer.model.named_buffers() if name in model}
        return {
            "model": model,
            "optimizer": optimizer,
            self._of_rank: own,
            "scaler": self._trainer.scaler.state_dict(),
        }

    def _tensors(self) -> Iterator[Tensor]:
        yield from self._trainer.model.state_dict().values()
        yield from state_tensors(self._trainer.optimizer)


def state_tensors(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """Yield the tensors of an optimizer's state."""
    for of_weight in optimizer.state.values():
        yield from (value for value in of_weight.values() if isinstance(value, Tensor))
