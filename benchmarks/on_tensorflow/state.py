"""State of a training on TensorFlow, written and read by tf.train.Checkpoint."""

from __future__ import annotations

import hashlib
from pathlib import Path

import tensorflow as tf

from benchmarks.on_tensorflow.trainer import Trainer

NAME = "state"


class State:
    """Variables of model and optimizer, of one process."""

    def __init__(self, trainer: Trainer) -> None:
        self._variables = [one.value for one in (*trainer.model.variables, *trainer.optimizer.variables)]
        self._checkpoint = tf.train.Checkpoint(variables=self._variables)

    @property
    def size_bytes(self) -> int:
        """Bytes of the variables."""
        return sum(int(one.shape.num_elements()) * int(one.dtype.size) for one in self._variables)

    def checksum(self) -> str:
        """Return a checksum of all variables."""
        found = hashlib.sha256()
        for one in self._variables:
            found.update(one.numpy().tobytes())
        return found.hexdigest()

    def save(self, folder: Path) -> None:
        """Write into a new folder."""
        self._checkpoint.write(str(folder / NAME))

    def load(self, folder: Path) -> None:
        """Read from a folder."""
        self._checkpoint.read(str(folder / NAME)).assert_consumed()
