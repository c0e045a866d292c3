"""Training data of CosmoFlow: synthetic counts, or TFRecords of one volume each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from benchmarks.cosmoflow.config import PARAMETERS, REDSHIFTS
from benchmarks.on_tensorflow.target import Target
from benchmarks.on_tensorflow.tfrecords import Counts, counted, records, whole_files

if TYPE_CHECKING:
    from benchmarks.on_tensorflow.workload import TensorFlowWorkload

FEATURES = {
    "x": tf.io.FixedLenFeature([], tf.string),  # counts as int16, of shape [size, size, size, 4]
    "y": tf.io.FixedLenFeature([PARAMETERS], tf.float32),
}
GZIP_MAGIC = b"\x1f\x8b"


def made(run: TensorFlowWorkload, _: Target, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return random particle counts of shape [samples, size, size, size, 4] in int16, and targets of [samples, 4]."""
    return made_batch(run.config.model.size, run.config.training.seed_of_data, count, run.launch.rank)


def read(run: TensorFlowWorkload, _: Target, count: int, counts: Counts) -> tf.data.Dataset:
    """Return batches of the same shapes from the files of this rank."""
    decode = decoder(run.config.model.size)
    with run.files[0].open("rb") as file:
        packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    if packed:
        return whole_files(run, decode, count, counts)
    return records(run, counted(decode, counts), count)


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
