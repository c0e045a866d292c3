"""Training step of any model, and learning rates of its optimizer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from benchmarks.on_tensorflow.parts import StepInParts
from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.tfrecords import Batches
from jpwr.regions import RegionTimer
from jpwr.regions.times import IO


class Trained(NamedTuple):
    """Model, optimizer and loss of a training, made in the scope of the target's strategy."""

    model: keras.Model
    optimizer: Any  # of Keras, with loss scaling in fp16
    # Returns a replica's part of the loss from samples, labels and the index of the first of them in the global batch.
    # Gradients are summed over replicas, so that each divides by the global batch size.
    loss_of: Callable[[Any, Any, Any], Any]
    completed: Callable[[Sequence[Any]], Sequence[Any]] = list  # adds the gradients of terms outside the loss


class Trainer:
    """Training of this process: `call` takes from batches, `step` trains on one given batch."""

    def __init__(
        self, trained: Callable[[], Trained], target: Target, regions: RegionTimer, steps_per_call: int
    ) -> None:
        self.losses: list[Any] = []  # of the last step of each call, a mean over the global batch
        self._strategy = target.strategy
        with self._strategy.scope():
            self.model, self.optimizer, loss_of, completed = trained()
            optimizer = self.optimizer
            optimizer.build(self.model.trainable_variables)
        weights, rank = self.model.trainable_variables, target.launch.rank

        def scaled_loss(samples: Any, labels: Any) -> tuple[Any, Any]:
            loss = loss_of(samples, labels, rank * tf.shape(labels)[0])
            return loss, optimizer.scale_loss(loss)

        # Compiled without the sum over replicas, which XLA does not support. On an IPU the loop around it is compiled.
        @tf.function(jit_compile=target.xla and not target.on_ipu)
        def gradients_of(samples: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss, scaled = scaled_loss(samples, labels)
            return loss, completed(tape.gradient(scaled, weights))

        def replica_step(samples: Any, labels: Any) -> Any:
            loss, gradients = gradients_of(samples, labels)
            optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return loss

        @tf.function
        def one_step(samples: Any, labels: Any) -> Any:
            loss = self._strategy.run(replica_step, args=(samples, labels))
            return self._strategy.reduce("SUM", loss, axis=None)

        self._one_step = replica_step if target.on_ipu else one_step
        self.in_parts = StepInParts(
            regions,
            self._strategy,
            lambda samples, labels: scaled_loss(samples, labels)[1],
            completed,
            optimizer,
            weights,
            target.xla,
        )
        self._regions = regions
        self._on_ipu = target.on_ipu
        self._steps_per_call = steps_per_call
        self._graphs: dict[Batches, Callable[[], Any]] = {}

    def step(self, samples: Any, labels: Any) -> None:
        """Make one optimizer step; its loss is kept on the device."""
        self.losses.append(self._one_step(samples, labels))

    def call(self, batches: Batches) -> None:
        """Make the optimizer steps of one call into TensorFlow; the loss of the last one is kept on the device."""
        if self._steps_per_call == 1 and not self._on_ipu:
            with self._regions.region(IO):
                batch = next(batches)
            self.step(*batch)
            return
        if batches not in self._graphs:
            self._graphs[batches] = self._several_steps(batches)
        graph = self._graphs[batches]
        self.losses.append(self._strategy.run(graph) if self._on_ipu else graph())

    def _several_steps(self, batches: Batches) -> Callable[[], Any]:
        one_step = self._one_step

        @tf.function(jit_compile=self._on_ipu)
        def several_steps() -> Any:
            loss = tf.constant(0.0)
            for _ in tf.range(self._steps_per_call):
                samples, labels = batches.take()
                loss = one_step(samples, labels)
            return loss

        graph: Callable[[], Any] = several_steps
        return graph

    def synchronize(self) -> None:
        """Wait until the device is idle, by fetching a scalar."""
        if self.losses:
            self.losses[-1] = float(self.losses[-1])


class State:
    """State of a training of one process: variables of model and optimizer, by tf.train.Checkpoint."""

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
        self._checkpoint.write(str(folder / "state"))

    def load(self, folder: Path) -> None:
        """Read from a folder."""
        self._checkpoint.read(str(folder / "state")).assert_consumed()


def in_precision(optimizer: Any, target: Target) -> Any:
    """Return the optimizer, with loss scaling if the precision is fp16."""
    return keras.optimizers.LossScaleOptimizer(optimizer) if target.precision == "fp16" else optimizer


def rising_rate(highest: float, steps: int) -> Any:
    """Return a learning rate that rises linearly over the warm-up steps to the highest, and stays there."""
    if steps == 1:
        return highest
    return keras.optimizers.schedules.PolynomialDecay(highest / steps, steps - 1, end_learning_rate=highest)
