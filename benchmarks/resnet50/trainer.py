"""Model, optimizer and one step of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from benchmarks.on_tensorflow.parts import StepInParts
from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.tfrecords import Batches
from benchmarks.resnet50.config import NUM_CLASSES, Config, TrainingOptions
from benchmarks.resnet50.model import build_model
from jpwr.region_times import IO
from jpwr.regions import RegionTimer


class Trainer:
    """What this process trains: `call` from batches, or `step` on one that is at hand."""

    def __init__(self, config: Config, target: Target, regions: RegionTimer) -> None:
        self.losses: list[Any] = []  # of the last step of every call, a mean over the global batch
        options, batch = config.training, config.batch.global_batch_size
        self._strategy = target.strategy
        with self._strategy.scope():
            self.model = build_model(config.model.variant, config.model.image_size, target.data_format, options.seed)
            optimizer = keras.optimizers.SGD(learning_rate(options, batch), momentum=options.momentum)
            if target.precision == "fp16":
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
            optimizer.build(self.model.trainable_variables)
        kernels = [variable.path.endswith("kernel") for variable in self.model.trainable_variables]

        weights = self.model.trainable_variables

        def loss_of(images: Any, labels: Any) -> Any:
            logits = self.model(images, training=True)
            goal = tf.one_hot(labels, NUM_CLASSES) * (1 - options.label_smoothing)
            goal += options.label_smoothing / NUM_CLASSES
            # Gradients are summed over replicas, so that each divides by the whole batch.
            return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(goal, logits)) / batch

        def decayed(gradients: Sequence[Any]) -> list[Any]:
            share = options.weight_decay / self._strategy.num_replicas_in_sync
            decay = [share * weight if kernel else None for weight, kernel in zip(weights, kernels, strict=True)]
            return [
                gradient if one is None else gradient + optimizer.scale_loss(one)
                for gradient, one in zip(gradients, decay, strict=True)
            ]

        # Compiled without the sum over replicas, which XLA cannot hold. On an IPU the loop around it is compiled.
        @tf.function(jit_compile=target.xla and not target.on_ipu)
        def gradients_of(images: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(images, labels)
                scaled = optimizer.scale_loss(loss)
            return loss, decayed(tape.gradient(scaled, weights))

        def replica_step(images: Any, labels: Any) -> Any:
            loss, gradients = gradients_of(images, labels)
            optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return loss

        @tf.function
        def one_step(images: Any, labels: Any) -> Any:
            loss = self._strategy.run(replica_step, args=(images, labels))
            return self._strategy.reduce("SUM", loss, axis=None)

        self._one_step = replica_step if target.on_ipu else one_step
        self.in_parts = StepInParts(
            regions,
            self._strategy,
            lambda images, labels: optimizer.scale_loss(loss_of(images, labels)),
            decayed,
            optimizer,
            weights,
            target.xla,
        )
        self._regions = regions
        self._on_ipu = target.on_ipu
        self._steps_per_call = config.compute.steps_per_call
        self._graphs: dict[Batches, Callable[[], Any]] = {}

    def step(self, images: Any, labels: Any) -> None:
        """One optimizer step; its loss is kept on the device."""
        self.losses.append(self._one_step(images, labels))

    def call(self, batches: Batches) -> None:
        """Some optimizer steps in one call into TensorFlow; the loss of the last one is kept on the device."""
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
                images, labels = batches.take()
                loss = one_step(images, labels)
            return loss

        graph: Callable[[], Any] = several_steps
        return graph

    def synchronize(self) -> None:
        """Wait until the device has done all it was given: fetching a scalar does."""
        if self.losses:
            self.losses[-1] = float(self.losses[-1])


def learning_rate(options: TrainingOptions, global_batch_size: int) -> Any:
    """It rises in a line with the steps, from one part of the warm-up to the highest, and stays there.

    The highest is in proportion to the global batch: Goyal et al. 2017 (arXiv:1706.02677).
    """
    highest, steps = options.learning_rate * global_batch_size / 256, options.learning_rate_warmup_steps
    if steps == 1:
        return highest
    return keras.optimizers.schedules.PolynomialDecay(highest / steps, steps - 1, end_learning_rate=highest)
