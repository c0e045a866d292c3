"""State of a training on TensorFlow, written and read by tf.train.Checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.on_tensorflow.trainer import Trainer

NAME = "state"


class State:
    """Variables of model and optimizer, of one process."""

    def __init__(self, trainer: Trainer, first_step: int, steps_per_call: int) -> None:
        self._losses, self._first_step, self._steps_per_call = trainer.losses, first_step, steps_per_call
        self._variables = [one.value for one in (*trainer.model.variables, *trainer.optimizer.variables)]
        self._checkpoint = tf.train.Checkpoint(variables=self._variables)
        self._waiting = ThreadPoolExecutor(1)

    @property
    def steps(self) -> int:
        """Optimizer steps made, with those before a restored checkpoint."""
        return self._first_step + len(self._losses) * self._steps_per_call

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

    def start_saving(self, folder: Path) -> Callable[[bool], bool]:
        """Copy the variables to the host, and write them in TensorFlow's own thread."""
        options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
        self._checkpoint.write(str(folder / NAME), options)
        done = self._waiting.submit(self._checkpoint.sync)

        def finish(wait: bool) -> bool:
            if wait or done.done():
                done.result()  # raises the thread's exception
            return done.done()

        return finish

    def load(self, folder: Path, steps: int) -> None:
        """Read from a folder the state after a number of steps, and forget the losses of later ones."""
        self._checkpoint.read(str(folder / NAME)).assert_consumed()
        del self._losses[(steps - self._first_step) // self._steps_per_call :]
