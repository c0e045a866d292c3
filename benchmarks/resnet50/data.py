"""Training data of ResNet-50: synthetic images, or JPEGs from TFRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.tfrecords import DTYPES, Counts, Decode, counted, records
from benchmarks.resnet50.config import NUM_CLASSES, Config

if TYPE_CHECKING:
    from benchmarks.on_tensorflow.workload import TensorFlowWorkload

# Mean and deviation of ImageNet's training set, per channel, for values from 0 to 255.
MEAN = (123.675, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)
FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),  # 1 to 1000, as in the usual ImageNet TFRecords
}


def made(run: TensorFlowWorkload, target: Target, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return random images of shape [samples, height, width, 3] in the type of the precision, and labels from 0."""
    images, labels = made_batch(run.config, count, run.launch.rank)
    return tf.cast(images, DTYPES[target.precision]), labels


def read(run: TensorFlowWorkload, target: Target, count: int, counts: Counts) -> tf.data.Dataset:
    """Return batches of the same shapes and types from the files of this rank."""
    return records(run, counted(decoder(run.config, target), counts), count)


def made_batch(config: Config, batch_size: int, rank: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return random images and labels: this rank's part of a global batch that is the same for every layout."""
    first, size = rank * batch_size, config.model.image_size
    seeds = [(config.training.seed_of_data, index) for index in range(first, first + batch_size)]
    images = tf.stack([tf.random.stateless_normal((size, size, 3), seed) for seed in seeds])
    labels = tf.stack([tf.random.stateless_uniform((), seed, 0, NUM_CLASSES, tf.int32) for seed in seeds])
    return images, labels


def decoder(config: Config, target: Target) -> Decode:
    """Return the decoder of an example into image and label, augmented as by Szegedy et al. 2014 (arXiv:1409.4842)."""
    size = config.model.image_size

    def decode(serialised: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(serialised, FEATURES)
        encoded = example["image/encoded"]
        whole = tf.constant([0.0, 0.0, 1.0, 1.0], shape=(1, 1, 4))
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(encoded),
            whole,
            min_object_covered=0.0,
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([begin[:2], extent[:2]], 0)
        image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
        image = tf.image.resize(image, (size, size))
        image = (tf.image.random_flip_left_right(image) - MEAN) / DEVIATION
        label = tf.cast(example["image/class/label"], tf.int32) - 1
        check = tf.debugging.Assert(
            (label >= 0) & (label < NUM_CLASSES), ["a label is out of the range from 1 to 1000:", label + 1]
        )
        with tf.control_dependencies([check]):
            return tf.cast(image, DTYPES[target.precision]), tf.identity(label)

    return decode
