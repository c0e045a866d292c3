"""ResNet-50's optimizer and loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.trainer import Trained, Trainer, in_precision, rising_rate
from benchmarks.resnet50.config import NUM_CLASSES, Config, TrainingOptions
from benchmarks.resnet50.model import build_model
from jpwr.regions import RegionTimer


def build_trainer(config: Config, target: Target, regions: RegionTimer) -> Trainer:
    """Of the model that the options name."""
    options, batch = config.training, config.batch.global_batch_size

    def trained() -> Trained:
        model = build_model(config.model.variant, config.model.image_size, target.data_format, options.seed)
        optimizer = in_precision(keras.optimizers.SGD(learning_rate(options, batch), momentum=options.momentum), target)
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


def learning_rate(options: TrainingOptions, global_batch_size: int) -> Any:
    """The highest is in proportion to the global batch: Goyal et al. 2017 (arXiv:1706.02677)."""
    highest = options.learning_rate * global_batch_size / 256
    return rising_rate(highest, options.learning_rate_warmup_steps)
