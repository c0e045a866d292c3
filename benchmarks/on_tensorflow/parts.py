"""One optimizer step in parts, each of which ends before the next begins, as a step in one graph has no regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from jpwr.regions import RegionTimer
from jpwr.regions.times import BACKWARD, COMM, FORWARD, UPDATE

Tensors = Sequence[Any]


class StepInParts:
    """Forward pass, backward pass, sum of gradients over all processes, and update.

    `loss_of` returns this process's loss, scaled as the optimizer needs it, from samples and labels. `completed` adds
    the gradients of terms outside the loss, such as weight decay.
    """

    def __init__(
        self,
        timer: RegionTimer,
        strategy: Any,
        loss_of: Callable[[Any, Any], Any],
        completed: Callable[[Tensors], Tensors],
        optimizer: Any,
        weights: Tensors,
        xla: bool,
    ) -> None:
        self._timer, self._strategy, self._weights, self._completed = timer, strategy, weights, completed
        self._forward = tf.function(loss_of, jit_compile=xla)
        self._tape: tuple[tf.GradientTape, Any] | None = None  # of the forward pass, with its loss
        self._sum = tf.function(self._sum_over_replicas)
        self._update = tf.function(self._update_replicas)
        self._optimizer = optimizer

    def __call__(self, samples: Any, labels: Any) -> None:
        """Make one step on a batch."""
        with self._timer.region(FORWARD):
            self._wait_for([self._strategy.run(self._forward_replica, args=(samples, labels))])
        with self._timer.region(BACKWARD):
            gradients = self._strategy.run(self._backward_replica)
            self._wait_for(gradients)
        if self._strategy.num_replicas_in_sync > 1:
            with self._timer.region(COMM):
                gradients = self._sum(gradients)
                self._wait_for(gradients)
        with self._timer.region(UPDATE):
            self._wait_for([self._update(gradients)])

    def _forward_replica(self, samples: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self._forward(samples, labels)
        self._tape = tape, loss
        return loss

    def _backward_replica(self) -> Tensors:
        assert self._tape is not None
        tape, loss = self._tape
        self._tape = None
        return self._completed(tape.gradient(loss, self._weights))

    def _sum_over_replicas(self, gradients: Tensors) -> Tensors:
        def of_replica(*own: Any) -> Any:
            placed = [tf.identity(gradient) for gradient in own]  # an argument of a graph has no device yet
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, placed)

        return list(self._strategy.run(of_replica, args=tuple(gradients)))

    def _update_replicas(self, gradients: Tensors) -> Any:
        def of_replica(*own: Any) -> Any:
            self._optimizer.apply(list(own), self._weights)
            return tf.reduce_sum(self._weights[-1])

        # While its graph is made, the optimizer must not sum the gradients again.
        inner = getattr(self._optimizer, "inner_optimizer", self._optimizer)
        inner._all_reduce_sum_gradients = lambda pairs: pairs
        try:
            return self._strategy.run(of_replica, args=tuple(gradients))
        finally:
            del inner._all_reduce_sum_gradients

    def _wait_for(self, values: Tensors) -> None:
        """Wait until all values are computed."""
        for value in (values[-1], values[0]):
            float(tf.reshape(value, [-1])[0])
