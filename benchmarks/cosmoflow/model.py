"""CosmoFlow's network from Keras layers, its loss and its optimizer."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from benchmarks.cosmoflow.config import HIDDEN, KERNEL_SIZE, PARAMETERS, REDSHIFTS, WIDTHS, Config
from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.tfrecords import DTYPES
from benchmarks.on_tensorflow.trainer import Trained, Trainer, in_precision, rising_rate
from jpwr.regions import RegionTimer

REACH = 1.2  # largest output, so that tanh is not saturated at the targets' limits


def build_model(size: int, seed: int) -> keras.Model:
    """Return the model in the policy's precision; its outputs, of shape [samples, 4], are in float32.

    Its inputs are volumes, of shape [samples, size, size, size, 4], and dropout's factors for the
    units of each hidden layer.
    """
    initial = keras.initializers.GlorotUniform(seed)
    dtype = keras.mixed_precision.global_policy().compute_dtype
    volumes = keras.Input((size, size, size, REDSHIFTS), dtype=dtype)
    kept = [keras.Input((width,), dtype=dtype) for width in HIDDEN]
    x = volumes
    for width in WIDTHS:
        x = layers.Conv3D(width, KERNEL_SIZE, padding="same", kernel_initializer=initial.clone())(x)
        # Pooling first gives the same result with an eighth of the work, as LeakyReLU is monotonic.
        x = layers.MaxPooling3D(2)(x)
        x = layers.LeakyReLU()(x)
    x = layers.Flatten()(x)
    for width, factors in zip(HIDDEN, kept, strict=True):
        x = layers.LeakyReLU()(layers.Dense(width, kernel_initializer=initial.clone())(x))
        x = layers.Multiply()([x, factors])
    x = layers.Dense(PARAMETERS, activation="tanh", kernel_initializer=initial.clone())(x)
    return keras.Model([volumes, *kept], layers.Rescaling(REACH, dtype="float32")(x))


BASE_BATCH = 64


def build_trainer(config: Config, target: Target, regions: RegionTimer) -> Trainer:
    """Return the trainer for the configured model size."""
    options, batch = config.training, config.batch.global_batch_size

    def trained() -> Trained:
        model = build_model(config.model.size, options.seed)
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
    """Return the network's input from particle counts: log(1 + x), of [samples, size, size, size, 4].

    Counts stay int16 until here, which halves the bytes copied to a device compared with float32.
    """
    return tf.cast(tf.math.log1p(tf.cast(counts, tf.float32)), DTYPES[target.precision])


def factors(dropout: float, seed: int, step: Any, batch: int, first: Any, count: Any) -> list[Any]:
    """Return dropout's factors for the units of each hidden layer, of shape [count, units]: 0, or 1 / (1 - dropout).

    They are those of `count` samples of the global batch from `first` on, so that they do not depend on the layout.
    """
    found = []
    for layer, width in enumerate(HIDDEN):
        of_batch = tf.random.stateless_uniform((batch, width), (seed + layer, tf.cast(step, tf.int32)))
        found.append(tf.cast(of_batch[first : first + count] >= dropout, tf.float32) / (1 - dropout))
    return found
