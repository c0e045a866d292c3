"""ResNet-50 from Keras layers, its loss and its optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.trainer import Trained, Trainer, in_precision, rising_rate
from benchmarks.resnet50.config import EXPANSION, NUM_CLASSES, STAGES, Config
from jpwr.regions import RegionTimer

MOMENTUM, EPSILON = 0.9, 1e-5


class BatchNorm(layers.Layer):
    """Batch normalisation in one kernel, where Keras' own layer uses a dozen; its statistics are in float32."""

    def __init__(self, first_gamma: str) -> None:
        super().__init__()
        self._first_gamma = first_gamma

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        channels = (input_shape[-1],)

        def weight(name: str, first: str, trainable: bool) -> Any:
            options = {"dtype": "float32", "autocast": False, "trainable": trainable}
            return self.add_weight(shape=channels, initializer=first, name=name, **options)

        self.gamma, self.beta = weight("gamma", self._first_gamma, True), weight("beta", "zeros", True)
        self.mean, self.variance = weight("mean", "zeros", False), weight("variance", "ones", False)

    def call(self, x: Any, training: bool = False) -> Any:
        """Return the normalised input; while training, update the moving statistics."""
        scale, offset = self.gamma.value, self.beta.value
        if not training:
            out, _, _ = tf.compat.v1.nn.fused_batch_norm(
                x, scale, offset, self.mean.value, self.variance.value, EPSILON, is_training=False
            )
            return out
        out, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=EPSILON, is_training=True)
        self.mean.assign(MOMENTUM * self.mean.value + (1 - MOMENTUM) * mean)
        self.variance.assign(MOMENTUM * self.variance.value + (1 - MOMENTUM) * variance)
        return out


class _Builder:
    """Layers of a network."""

    def __init__(self, seed: int) -> None:
        self._initial = keras.initializers.HeNormal(seed)

    def convolution(self, x: Any, outputs: int, kernel_size: int, stride: int = 1) -> Any:
        # With stride 2, "same" would pad other borders than the paper's model.
        shifted = kernel_size > 1 and stride > 1
        if shifted:
            x = layers.ZeroPadding2D(kernel_size // 2)(x)
        return layers.Conv2D(
            outputs,
            kernel_size,
            stride,
            padding="valid" if shifted else "same",
            use_bias=False,
            kernel_initializer=self._initial.clone(),
        )(x)

    def norm(self, x: Any, last: bool = False, relu: bool = True) -> Any:
        # A block starts as the identity: Goyal et al. 2017 (arXiv:1706.02677), section 5.1.
        x = BatchNorm("zeros" if last else "ones")(x)
        return layers.ReLU()(x) if relu else x

    def pool(self, x: Any) -> Any:
        x = layers.ZeroPadding2D(1)(x)
        return layers.MaxPooling2D(3, 2)(x)

    def block_v1_5(self, x: Any, width: int, stride: int, projection: bool) -> Any:
        shortcut = x
        if projection:
            shortcut = self.norm(self.convolution(x, EXPANSION * width, 1, stride), relu=False)
        x = self.norm(self.convolution(x, width, 1))
        x = self.norm(self.convolution(x, width, 3, stride))
        x = self.norm(self.convolution(x, EXPANSION * width, 1), last=True, relu=False)
        return layers.ReLU()(layers.Add()([x, shortcut]))

    def block_v2(self, x: Any, width: int, stride: int, projection: bool) -> Any:
        before = self.norm(x)
        shortcut = self.convolution(before, EXPANSION * width, 1, stride) if projection else x
        x = self.norm(self.convolution(before, width, 1))
        x = self.norm(self.convolution(x, width, 3, stride))
        return layers.Add()([self.convolution(x, EXPANSION * width, 1), shortcut])


def build_model(variant: str, image_size: int, seed: int) -> keras.Model:
    """Return ResNet-50 in the policy's precision; its logits, of shape [images, classes], are in float32.

    v1.5 has a stage's stride in the 3x3 convolution of its first block; v2 is the pre-activation model (He et al.
    2016, arXiv:1603.05027).
    """
    build, shape = _Builder(seed), (image_size, image_size, 3)
    images = keras.Input(shape, dtype=keras.mixed_precision.global_policy().compute_dtype)
    x = build.convolution(images, 64, 7, 2)
    x = build.pool(build.norm(x) if variant == "v1.5" else x)
    block = build.block_v1_5 if variant == "v1.5" else build.block_v2
    for stage, (blocks, width) in enumerate(STAGES):
        for index in range(blocks):
            x = block(x, width, 2 if stage and not index else 1, projection=not index)
    if variant == "v2":
        x = build.norm(x)
    x = layers.GlobalAveragePooling2D()(x)
    logits = layers.Dense(NUM_CLASSES, kernel_initializer=keras.initializers.RandomNormal(stddev=0.01, seed=seed))(x)
    return keras.Model(images, layers.Activation("linear", dtype="float32")(logits))


def build_trainer(config: Config, target: Target, regions: RegionTimer) -> Trainer:
    """Return the trainer for the configured model."""
    options, batch = config.training, config.batch.global_batch_size

    def trained() -> Trained:
        model = build_model(config.model.variant, config.model.image_size, options.seed)
        rate = rising_rate(options.highest_rate(batch), options.learning_rate_warmup_steps)
        optimizer = in_precision(keras.optimizers.SGD(rate, momentum=options.momentum), target)
        weights = model.trainable_variables
        kernels = [variable.path.endswith("kernel") for variable in weights]

        def loss_of(images: Any, labels: Any, _: Any) -> Any:
            logits = model(images, training=True)
            goal = tf.one_hot(labels, NUM_CLASSES) * (1 - options.label_smoothing)
            goal += options.label_smoothing / NUM_CLASSES
            return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(goal, logits)) / batch

        def decayed(gradients: Sequence[Any]) -> list[Any]:
            share = options.weight_decay / target.strategy.num_replicas_in_sync
            decay = [share * weight if kernel else None for weight, kernel in zip(weights, kernels, strict=True)]
            return [
                gradient if one is None else gradient + optimizer.scale_loss(one)
                for gradient, one in zip(gradients, decay, strict=True)
            ]

        return Trained(model, optimizer, loss_of, decayed)

    return Trainer(trained, target, regions, config.compute.steps_per_call)
