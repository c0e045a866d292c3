"""Batches: one that stays on the device, one that is copied from the host, or records of TFRecords."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.common.options import ConfigError
from benchmarks.on_tensorflow.target import Target

SETTLE_S = 0.2
DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}  # half the bytes on their way to a device
COPIED_AHEAD = 2  # batches: one is trained on
PATTERN = "train-*-of-[0-9][0-9][0-9][0-9][0-9]"

# From a serialised example to a sample and its label.
Decode = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


class DataError(Exception):
    """The data cannot be trained on: one sentence with what was found."""


@dataclass
class Counts:
    """What was read from files so far."""

    tried: Any  # records
    used: Any  # of them, those that made a sample
    size_bytes: Any  # of all of them

    @classmethod
    def zero(cls) -> Counts:
        with tf.device("CPU:0"):
            return cls(*(tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(3)))


class Batches:
    """Samples and labels of this process, without an end.

    Where the process drives several devices, it is one such batch for each.
    """

    def __init__(self, target: Target, kept: tuple[Any, Any] | None, made: tf.data.Dataset, counts: Counts) -> None:
        self._target, self._counts = target, counts
        self._iterator = itertools.repeat(self._share_out(*kept)) if kept else iter(made)

    @classmethod
    def on_device(cls, target: Target, samples: Any, labels: Any) -> Batches:
        """One batch that stays where it is, again and again."""
        return cls(target, (samples, labels), None, Counts.zero())

    @classmethod
    def from_host(cls, target: Target, samples: Any, labels: Any, prefetch_batches: int) -> Batches:
        """One batch that is copied to the device each time."""
        dataset = tf.data.Dataset.from_tensors((samples.numpy(), labels.numpy())).repeat()
        return cls(target, None, _to_device(dataset, target, prefetch_batches), Counts.zero())

    @classmethod
    def from_files(
        cls,
        target: Target,
        files: Sequence[str],
        decode: Decode,
        batch_size: int,
        seed: int,
        parallel_files: int,
        prefetch_batches: int,
        rank: int,
        ranks: int,
    ) -> Batches:
        """Records of TFRecords, each rank's from files or records of its own; a damaged one is left out and counted."""
        counts = Counts.zero()
        dataset = records(files, _counted(decode, counts), batch_size, seed, parallel_files, rank, ranks)
        return cls(target, None, _to_device(dataset, target, prefetch_batches), counts)

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

    def _share_out(self, samples: Any, labels: Any) -> tuple[Any, Any]:
        """Each device of this process gets its part, where it has several."""
        parts = self._target.local_devices
        if parts == 1:
            return samples, labels
        shares = list(zip(tf.split(samples, parts), tf.split(labels, parts), strict=True))
        pair = self._target.strategy.experimental_distribute_values_from_function(
            lambda context: shares[context.replica_id_in_sync_group]
        )
        return tuple(pair)

    def read_so_far(self) -> tuple[int, int]:
        """Samples and bytes that were read from files."""
        return int(self._counts.used), int(self._counts.size_bytes)

    def records(self) -> tuple[int, int]:
        """How many records were read from files, and how many of them could not be used."""
        tried, used = -1, -1
        while (tried, used) != (int(self._counts.tried), int(self._counts.used)):  # some may be in the works
            tried, used = int(self._counts.tried), int(self._counts.used)
            time.sleep(SETTLE_S)
        return tried, tried - used


def _to_device(dataset: tf.data.Dataset, target: Target, prefetch_batches: int) -> tf.data.Dataset:
    """Batches made ahead: copied to a process's one GPU while it trains on the ones before, else in the node."""
    ahead = dataset.prefetch(prefetch_batches)
    if target.on_gpu and target.local_devices == 1:
        return ahead.apply(tf.data.experimental.prefetch_to_device("/GPU:0", COPIED_AHEAD))
    return ahead


def _counted(decode: Decode, counts: Counts) -> Decode:
    def counted(serialised: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.strings.length(serialised)
        with tf.control_dependencies(
            [counts.tried.assign_add(1), counts.size_bytes.assign_add(tf.cast(size, tf.int64))]
        ):
            sample, label = decode(tf.identity(serialised))
        with tf.control_dependencies([sample, label]), tf.control_dependencies([counts.used.assign_add(1)]):
            return tf.identity(sample), tf.identity(label)

    return counted


def find_files(folder: Path, workload: str) -> list[str]:
    """The TFRecords of the training set; raises ConfigError where there are none, or some are missing."""
    files = sorted(str(path) for path in folder.glob(PATTERN))
    if not files:
        raise ConfigError(
            f"--data-dir {folder} holds no TFRecords {PATTERN}: "
            f"make them with 'python -m benchmarks.{workload}.prepare'"
        )
    whole = int(files[0].rpartition("-")[2])
    if len(files) != whole:
        raise ConfigError(f"--data-dir {folder} holds {len(files)} of {whole} TFRecords: let prepare go on")
    return files


def records(
    files: Sequence[str], decode: Decode, batch_size: int, seed: int, parallel_files: int, rank: int, ranks: int
) -> tf.data.Dataset:
    """Batches of what is decoded from records, in another order each time they are read."""
    dataset = tf.data.Dataset.from_tensor_slices(files)
    by_file = len(files) >= ranks
    if by_file:
        dataset = dataset.shard(ranks, rank)
    dataset = dataset.shuffle(len(files), seed=seed).interleave(
        # The rest of a file that is cut short is lost, and no other file's.
        lambda file: tf.data.TFRecordDataset(file).ignore_errors(),
        cycle_length=parallel_files,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )
    if not by_file:
        dataset = dataset.shard(ranks, rank)
    dataset = dataset.shuffle(16 * batch_size, seed=seed)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False).ignore_errors()
    return dataset.repeat().batch(batch_size, drop_remainder=True)
