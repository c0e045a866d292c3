"""State of a training on TensorFlow, written and read by tf.train.Checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import tensorflow as tf

from benchmarks.common.workload import is_written
from benchmarks.on_tensorflow.trainer import Trainer

NAME = "state"


class State:
    """Variables of model and optimizer, of one process."""

    def __init__(self, trainer: Trainer) -> None:
        self._variables = [one.value for one in (*trainer.model.variables, *trainer.optimizer.variables)]
        self._checkpoint = tf.train.Checkpoint(variables=self._variables)
        self._waiting = ThreadPoolExecutor(1)

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

    def start_saving(self, folder: Path) -> Callable[[], bool]:
        """Copy the variables to the host, and write them in TensorFlow's own thread."""
        options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
        self._checkpoint.write(str(folder / NAME), options)
        return partial(is_written, self._waiting.submit(self._checkpoint.sync))

    def load(self, folder: Path) -> None:
        """Read from a folder."""
        self._checkpoint.read(str(folder / NAME)).assert_consumed()
