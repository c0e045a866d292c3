"""CosmoFlow's optimizer and loss."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from benchmarks.cosmoflow.config import HIDDEN, PARAMETERS, Config
from benchmarks.cosmoflow.model import build_model
from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.tfrecords import DTYPES
from benchmarks.on_tensorflow.trainer import Trained, Trainer, in_precision, rising_rate
from jpwr.regions import RegionTimer

BASE_BATCH = 64


def build_trainer(config: Config, target: Target, regions: RegionTimer) -> Trainer:
    """Of the model's size."""
    options, batch = config.training, config.batch.global_batch_size

    def trained() -> Trained:
        model = build_model(config.model.size, target.data_format, options.seed)
        # In proportion to the global batch, as in the reference.
        rate = rising_rate(options.learning_rate * batch / BASE_BATCH, options.learning_rate_warmup_steps)
        sgd = keras.optimizers.SGD(rate, momentum=options.momentum)

        def loss_of(volumes: Any, wanted: Any, first: Any) -> Any:
            kept = factors(options.dropout, options.seed, sgd.iterations, batch, first, tf.shape(wanted)[0])
            inputs = [prepared(volumes, target), *(tf.cast(one, model.compute_dtype) for one in kept)]
            found = model(inputs, training=True)
            return tf.reduce_sum(tf.square(found - wanted)) / (batch * PARAMETERS)

        return Trained(model, in_precision(sgd, target), loss_of)

    return Trainer(trained, target, regions, config.compute.steps_per_call)


def prepared(counts: Any, target: Target) -> Any:
    """What the network takes of counts of particles: log(1 + x), of shape [samples, size, size, size, 4] or 4 first.

    They are counted in int16 until here: half the bytes of float32 on their way to a device.
    """
    volumes = tf.cast(tf.math.log1p(tf.cast(counts, tf.float32)), DTYPES[target.precision])
    return tf.transpose(volumes, (0, 4, 1, 2, 3)) if target.data_format == "channels_first" else volumes


def factors(dropout: float, seed: int, step: Any, batch: int, first: Any, count: Any) -> list[Any]:
    """For the units of each hidden layer, of shape [count, units]: 0 for what a step leaves out, others the more.

    The same for a sample of the global batch, wherever it is: of `count` of them from `first` on.
    """
    found = []
    for layer, width in enumerate(HIDDEN):
        of_batch = tf.random.stateless_uniform((batch, width), (seed + layer, tf.cast(step, tf.int32)))
        found.append(tf.cast(of_batch[first : first + count] >= dropout, tf.float32) / (1 - dropout))
    return found
