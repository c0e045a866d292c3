"""Training data of CosmoFlow: synthetic counts, or TFRecords of one volume each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from benchmarks.cosmoflow.config import PARAMETERS, REDSHIFTS, DataOptions
from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.tfrecords import Batches, Counts, Parallel, counted, records, whole_files

if TYPE_CHECKING:
    from benchmarks.on_tensorflow.workload import TensorFlowWorkload

FEATURES = {
    "x": tf.io.FixedLenFeature([], tf.string),  # counts as int16, of shape [size, size, size, 4]
    "y": tf.io.FixedLenFeature([PARAMETERS], tf.float32),
}
GZIP_MAGIC = b"\x1f\x8b"


def open_batches(run: TensorFlowWorkload, target: Target, on_device: bool = False) -> Batches:
    """Return batches of particle counts, int16 of shape [samples, size, size, size, 4], and targets of [samples, 4]."""
    data, size, seed = run.config.data, run.config.model.size, run.config.training.seed_of_data

    def made(count: int) -> tuple[tf.Tensor, tf.Tensor]:
        return made_batch(size, seed, count, run.launch.rank)

    def read(count: int, counts: Counts, parallel: Parallel) -> tf.data.Dataset:
        decode = decoder(size)
        with run.files[0].open("rb") as file:
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        if packed:
            return whole_files(run.files, decode, counts, count, seed, parallel, run.shares)
        return records(run.files, counted(decode, counts), count, seed, parallel, run.shares)

    return Batches(DataOptions() if on_device else data, target, run.layout["micro_batch_size"], made, read)


def made_batch(size: int, seed: int, count: int, rank: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return random counts and targets: this rank's part of a global batch that is the same for every layout."""
    seeds = [(seed, index) for index in range(rank * count, (rank + 1) * count)]
    shape = (size, size, size, REDSHIFTS)
    volumes = [tf.exp(tf.random.stateless_normal(shape, one)) for one in seeds]
    targets = [tf.random.stateless_uniform((PARAMETERS,), one, -1.0, 1.0) for one in seeds]
    return tf.stack([tf.cast(volume, tf.int16) for volume in volumes]), tf.stack(targets)


def decoder(size: int) -> Any:
    """Return the decoder of a serialised example into counts and targets."""
    shape = (size, size, size, REDSHIFTS)

    def decode(serialised: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(serialised, FEATURES)
        counts = tf.reshape(tf.io.decode_raw(example["x"], tf.int16), shape)
        check = tf.debugging.assert_all_finite(example["y"], "a target is not a number")
        with tf.control_dependencies([check]):
            return counts, tf.identity(example["y"])

    return decode
