"""Batches of images: one that stays on the device, one that is copied from the host, or JPEGs from TFRecords."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.common.options import ConfigError
from benchmarks.resnet50.config import NUM_CLASSES, Config
from benchmarks.resnet50.parallel import Target

# Mean and deviation of ImageNet's training set, per channel, for values from 0 to 255.
MEAN = (123.675, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)
SETTLE_S = 0.2
DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}  # half the bytes on their way to a device
COPIED_AHEAD = 2  # batches: one is trained on
PATTERN = "train-*-of-[0-9][0-9][0-9][0-9][0-9]"
FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),  # 1 to 1000, as in the usual ImageNet TFRecords
}


Decode = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


class DataError(Exception):
    """The data cannot be trained on: one sentence with what was found."""


def image_shape(config: Config, target: Target) -> tuple[int, ...]:
    size = config.model.image_size
    return (3, size, size) if target.data_format == "channels_first" else (size, size, 3)


@dataclass
class Counts:
    """What was read from files so far."""

    tried: Any  # records
    used: Any  # of them, those that made an image
    size_bytes: Any  # of all of them

    @classmethod
    def zero(cls) -> Counts:
        with tf.device("CPU:0"):
            return cls(*(tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(3)))


class Batches:
    """Images of shape [batch_size, height, width, 3] (or 3 first) in the type that
    the precision computes in, and labels from 0, without an end.

    Where the process drives several devices, it is one such batch for each. Raises ConfigError when there is no data
    to read.
    """

    def __init__(self, config: Config, target: Target, batch_size: int, rank: int, ranks: int) -> None:
        self._counts = Counts.zero()
        self._target = target
        of_process = batch_size * target.local_devices
        if config.data.reads_files:
            decode = _counted(decoder(config, target), self._counts)
            self._iterator = iter(self._to_device(image_files(config, of_process, rank, ranks, decode), config))
            return
        images, labels = made_batch(config, target, of_process, rank)
        images = tf.cast(images, DTYPES[target.precision])
        if config.data.data == "synthetic":
            self._iterator = itertools.repeat(self._share_out(images, labels))
        else:
            dataset = tf.data.Dataset.from_tensors((images.numpy(), labels.numpy())).repeat()
            self._iterator = iter(self._to_device(dataset, config))

    def _to_device(self, dataset: tf.data.Dataset, config: Config) -> tf.data.Dataset:
        """Batches made ahead: copied to a process's one GPU while it trains on the ones before, else in the node."""
        ahead = dataset.prefetch(config.data.prefetch_batches)
        if self._target.on_gpu and self._target.local_devices == 1:
            return ahead.apply(tf.data.experimental.prefetch_to_device("/GPU:0", COPIED_AHEAD))
        return ahead

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> tuple[Any, Any]:
        """The next batch; raises DataError when the files hold no record that can be used."""
        try:
            return self.take()
        except StopIteration as error:
            raise DataError(f"no record of the data can be used: {self.records()[0]} were tried") from error

    def take(self) -> tuple[Any, Any]:
        """The next batch, in a graph too; there, the end is TensorFlow's error and not StopIteration."""
        batch = next(self._iterator)
        return batch if isinstance(self._iterator, itertools.repeat) else self._share_out(*batch)

    def _share_out(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Each device of this process gets its part, where it has several."""
        parts = self._target.local_devices
        if parts == 1:
            return images, labels
        shares = list(zip(tf.split(images, parts), tf.split(labels, parts), strict=True))
        pair = self._target.strategy.experimental_distribute_values_from_function(
            lambda context: shares[context.replica_id_in_sync_group]
        )
        return tuple(pair)

    def read_so_far(self) -> tuple[int, int]:
        """Images and bytes that were read from files."""
        return int(self._counts.used), int(self._counts.size_bytes)

    def records(self) -> tuple[int, int]:
        """How many records were read from files, and how many of them could not be used."""
        tried, used = -1, -1
        while (tried, used) != (int(self._counts.tried), int(self._counts.used)):  # some may be in the works
            tried, used = int(self._counts.tried), int(self._counts.used)
            time.sleep(SETTLE_S)
        return tried, tried - used


def _counted(decode: Decode, counts: Counts) -> Decode:
    def counted(serialised: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.strings.length(serialised)
        with tf.control_dependencies(
            [counts.tried.assign_add(1), counts.size_bytes.assign_add(tf.cast(size, tf.int64))]
        ):
            image, label = decode(tf.identity(serialised))
        with tf.control_dependencies([image, label]), tf.control_dependencies([counts.used.assign_add(1)]):
            return tf.identity(image), tf.identity(label)

    return counted


def made_batch(config: Config, target: Target, batch_size: int, rank: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Random images with random labels: this rank's part of a global batch that is the same for every layout."""
    first = rank * batch_size
    seeds = [(config.training.seed, index) for index in range(first, first + batch_size)]
    images = tf.stack([tf.random.stateless_normal(image_shape(config, target), seed) for seed in seeds])
    labels = tf.stack([tf.random.stateless_uniform((), seed, 0, NUM_CLASSES, tf.int32) for seed in seeds])
    return images, labels


def find_files(folder: Path) -> list[str]:
    """The TFRecords of the training set; raises ConfigError where there are none, or some are missing."""
    files = sorted(str(path) for path in folder.glob(PATTERN))
    if not files:
        raise ConfigError(
            f"--data-dir {folder} holds no TFRecords {PATTERN}: make them with 'python -m benchmarks.resnet50.prepare'"
        )
    whole = int(files[0].rpartition("-")[2])
    if len(files) != whole:
        raise ConfigError(f"--data-dir {folder} holds {len(files)} of {whole} TFRecords: let prepare go on")
    return files


def drop_from_cache(folder: Path) -> None:
    """Ask the kernel to forget what it holds of the TFRecords, so that they are read from storage again."""
    for name in find_files(folder):
        with open(name, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def image_files(config: Config, batch_size: int, rank: int, ranks: int, decode: Decode) -> tf.data.Dataset:
    """Batches of decoded images, each rank's from files or records of its own; a record that is damaged is left out."""
    files = find_files(Path(config.data.data_dir))
    dataset = tf.data.Dataset.from_tensor_slices(files)
    by_file = len(files) >= ranks
    if by_file:
        dataset = dataset.shard(ranks, rank)
    dataset = dataset.shuffle(len(files), seed=config.training.seed).interleave(
        # The rest of a file that is cut short is lost, and no other file's.
        lambda file: tf.data.TFRecordDataset(file).ignore_errors(),
        cycle_length=config.data.parallel_files,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )
    if not by_file:
        dataset = dataset.shard(ranks, rank)
    dataset = dataset.shuffle(16 * batch_size, seed=config.training.seed)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False).ignore_errors()
    return dataset.repeat().batch(batch_size, drop_remainder=True)


def decoder(config: Config, target: Target) -> Decode:
    """From a serialised example to an image and its label: augmented as in Szegedy et al. 2014 (arXiv:1409.4842)."""
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
        if target.data_format == "channels_first":
            image = tf.transpose(image, (2, 0, 1))
        label = tf.cast(example["image/class/label"], tf.int32) - 1
        check = tf.debugging.Assert(
            (label >= 0) & (label < NUM_CLASSES), ["a label is out of the range from 1 to 1000:", label + 1]
        )
        with tf.control_dependencies([check]):
            return tf.cast(image, DTYPES[target.precision]), tf.identity(label)

    return decode
