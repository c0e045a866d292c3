"""CosmoFlow's network from Keras layers."""

from __future__ import annotations

import keras
from keras import layers

from benchmarks.cosmoflow.config import HIDDEN, KERNEL_SIZE, PARAMETERS, REDSHIFTS, WIDTHS

REACH = 1.2  # of the last layer's outputs, so that its tanh need not end where the targets do


def build_model(size: int, data_format: str, seed: int) -> keras.Model:
    """Targets, of shape [samples, 4] in float32, in the policy's precision otherwise.

    Of volumes, of shape [samples, size, size, size, 4] (or 4 first), and of factors for the units of each hidden layer:
    what dropout leaves of them.
    """
    initial = keras.initializers.GlorotUniform(seed)
    edges = (size, size, size)
    shape = (REDSHIFTS, *edges) if data_format == "channels_first" else (*edges, REDSHIFTS)
    dtype = keras.mixed_precision.global_policy().compute_dtype
    volumes = keras.Input(shape, dtype=dtype)
    kept = [keras.Input((width,), dtype=dtype) for width in HIDDEN]
    x = volumes
    for width in WIDTHS:
        x = layers.Conv3D(
            width, KERNEL_SIZE, padding="same", data_format=data_format, kernel_initializer=initial.clone()
        )(x)
        # In this order, which gives the same as the other, as LeakyReLU rises everywhere: an eighth of its work.
        x = layers.MaxPooling3D(2, data_format=data_format)(x)
        x = layers.LeakyReLU()(x)
    x = layers.Flatten()(x)
    for width, factors in zip(HIDDEN, kept, strict=True):
        x = layers.LeakyReLU()(layers.Dense(width, kernel_initializer=initial.clone())(x))
        x = layers.Multiply()([x, factors])
    x = layers.Dense(PARAMETERS, activation="tanh", kernel_initializer=initial.clone())(x)
    return keras.Model([volumes, *kept], layers.Rescaling(REACH, dtype="float32")(x))
