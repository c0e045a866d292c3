"""Batches: one that stays on the device, one that is copied from the host, or records from TFRecords."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from benchmarks.common.options import DataOptions
from benchmarks.common.samples import DataError, SampleWorkload
from benchmarks.on_tensorflow.target import Target

SETTLE_S = 0.2  # between two looks at counts that may still change
PARTS = ("reading", "decompressing", "decoding")  # of the input path
DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}  # 16 bits halve the bytes copied to a device
COPIED_AHEAD = 2  # batches on the device, of which one is in use

# Decodes a serialised example into a sample and its label.
Decode = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


class Counts:
    """Counts of what has been read from files so far."""

    def __init__(self) -> None:
        with tf.device("CPU:0"):
            counter = lambda dtype: tf.Variable(0, dtype=dtype, trainable=False)  # noqa: E731
            self.tried, self.used = counter(tf.int64), counter(tf.int64)  # records read, and those that became a sample
            self.size_bytes = counter(tf.int64)  # of all records
            # Files that are read as a whole: opened, and completely read.
            self.opens, self.arrived = counter(tf.int64), counter(tf.int64)
            # Seconds of the parts of the input path, added over all threads, if the parts are timed.
            self.parts_s = {name: counter(tf.float64) for name in PARTS}

    def timed(self, part: str, work: Callable[[Any], Any], given: Any) -> Any:
        """Apply a part's work to a tensor inside a data set's function, and add its time."""
        with tf.control_dependencies([given]):
            begun_s = tf.timestamp()
        with tf.control_dependencies([begun_s]):
            made = tf.nest.map_structure(tf.identity, work(tf.identity(given)))
        with tf.control_dependencies(tf.nest.flatten(made)):
            counted = self.parts_s[part].assign_add(tf.timestamp() - begun_s)
        with tf.control_dependencies([counted]):
            return tf.nest.map_structure(tf.identity, made)

    def count_use(self, sample: Any, label: Any) -> tuple[Any, Any]:
        """Return a sample and its label inside a data set's function, and count their record as used."""
        with tf.control_dependencies([sample, label]), tf.control_dependencies([self.used.assign_add(1)]):
            return tf.identity(sample), tf.identity(label)


class Batches:
    """Endless batches of samples and labels of this process."""

    def __init__(
        self,
        options: DataOptions,
        target: Target,
        batch_size: int,
        made: Callable[[int], tuple[Any, Any]],
        read: Callable[[int, Counts], tf.data.Dataset],
    ) -> None:
        """Open the batches: counted ones from `read`, or the same one from `made` each time.

        The batch from `made` stays on the device, or is copied from the host, as the options state.
        """
        self._target, self._counts = target, Counts()
        self._iterator: Iterator[tuple[Any, Any]]
        if options.data == "synthetic":
            self._iterator = itertools.repeat(made(batch_size))
            return
        if options.reads_files:
            dataset = read(batch_size, self._counts)
        else:
            on_host = tuple(part.numpy() for part in made(batch_size))
            dataset = tf.data.Dataset.from_tensors(on_host).repeat()
        self._iterator = iter(to_device(dataset, target, options.prefetch_batches))

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> tuple[Any, Any]:
        """Return the next batch; raises DataError if no record of the files can be used."""
        try:
            return self.take()
        except StopIteration as error:
            raise DataError(f"no record of the data can be used: {self.records()[0]} were tried") from error

    def take(self) -> tuple[Any, Any]:
        """Return the next batch, also in a graph, where TensorFlow's error replaces StopIteration."""
        return next(self._iterator)

    def copy_s(self) -> float | None:
        """Return the seconds to copy the next batch once more from the host to a GPU; None without a GPU."""
        if not self._target.on_gpu:
            return None
        on_host = [part.numpy() for part in next(self)]
        start_s = time.monotonic()
        with tf.device("GPU:0"):
            copied = [tf.identity(tf.constant(part)) for part in on_host]
        float(tf.reduce_sum(tf.cast(tf.reshape(copied[0], [-1])[:1], tf.float32)))  # waits for the copy
        return time.monotonic() - start_s

    def read_so_far(self, unit: str) -> dict[str, float]:
        """Return the amounts read from files, except those that are not counted."""
        counts = self._counts
        found = {f"input_{unit}s": int(counts.used), "input_bytes": int(counts.size_bytes)}
        if counts.opens:
            found["input_opens"] = int(counts.opens)
        return found | {f"input_{name}_s": float(spent_s) for name, spent_s in counts.parts_s.items() if spent_s}

    def records(self) -> tuple[int, int]:
        """Return the number of records read from files, and how many of them could not be used."""
        counts, before = self._counts, None
        while before != (
            now := (int(counts.tried), int(counts.used), int(counts.opens))
        ):  # some records may be in progress
            before = now
            time.sleep(SETTLE_S)
        lost = int(counts.opens) - int(counts.arrived)
        return now[0] + lost, now[0] - now[1] + lost


def to_device(dataset: tf.data.Dataset, target: Target, prefetch_batches: int) -> tf.data.Dataset:
    """Return a data set that prefetches batches, to the GPU or to the host."""
    # tf.data's tuning would choose other numbers of threads from run to run, and the end of a data set would wait for
    # its thread, which sleeps up to a minute.
    options = tf.data.Options()
    options.autotune.enabled = False
    ahead = dataset.prefetch(prefetch_batches).with_options(options)
    if target.copied_to:  # nothing may follow
        return ahead.apply(tf.data.experimental.prefetch_to_device(target.copied_to, COPIED_AHEAD))
    return ahead


def counted(decode: Decode, counts: Counts) -> Decode:
    """Return a decoder that also counts each record as used or damaged."""

    def decode_counted(serialised: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.strings.length(serialised)
        with tf.control_dependencies(
            [counts.tried.assign_add(1), counts.size_bytes.assign_add(tf.cast(size, tf.int64))]
        ):
            return counts.count_use(*decode(tf.identity(serialised)))

    return decode_counted


def whole_files(run: SampleWorkload, decode: Decode, batch_size: int, counts: Counts) -> tf.data.Dataset:
    """Return batches as `records` does, from files of one record each, packed with GZIP, with times of the parts.

    GZIP's own checksum detects a damaged file, so that the record's two checksums are not verified.
    """

    def read(file: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([counts.opens.assign_add(1)]):
            packed = counts.timed("reading", tf.io.read_file, file)
        size_bytes = tf.cast(tf.strings.length(packed), tf.int64)
        with tf.control_dependencies([counts.arrived.assign_add(1), counts.size_bytes.assign_add(size_bytes)]):
            return tf.identity(packed)

    def unpack(packed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.control_dependencies([counts.tried.assign_add(1)]):
            record = counts.timed("decompressing", lambda one: tf.io.decode_compressed(one, "GZIP"), packed)
        return counts.count_use(*counts.timed("decoding", lambda one: decode(_only_example(one)), record))

    dataset = _own_part(run, _shuffled(run))
    files, cores = run.config.data.parallel_files, run.launch.own_cores
    dataset = dataset.map(read, num_parallel_calls=files, deterministic=False).ignore_errors()
    dataset = dataset.map(unpack, num_parallel_calls=cores, deterministic=False).ignore_errors()
    return dataset.repeat().batch(batch_size, drop_remainder=True)


def _only_example(record: tf.Tensor) -> tf.Tensor:
    """Return the example of a file of one: after 8 bytes of length and 4 of checksum, before 4 of checksum."""
    length = tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]
    size = tf.strings.length(record)
    whole = tf.debugging.assert_equal(length, tf.cast(size, tf.int64) - 16)
    with tf.control_dependencies([whole]):
        return tf.strings.substr(record, 12, size - 16)


def records(run: SampleWorkload, decode: Decode, batch_size: int) -> tf.data.Dataset:
    """Return batches of decoded records from a rank's files, in another order in each epoch."""
    files, cores, seed = run.config.data.parallel_files, run.launch.own_cores, run.config.training.seed_of_data
    dataset = _shuffled(run).interleave(
        # Only the rest of a truncated file is lost.
        lambda file: tf.data.TFRecordDataset(file).ignore_errors(),
        cycle_length=files,
        num_parallel_calls=files,
        deterministic=False,
    )
    dataset = _own_part(run, dataset).shuffle(16 * batch_size, seed=seed)
    dataset = dataset.map(decode, num_parallel_calls=cores, deterministic=False).ignore_errors()
    return dataset.repeat().batch(batch_size, drop_remainder=True)


def _shuffled(run: SampleWorkload) -> tf.data.Dataset:
    files = [str(file) for file in run.files]
    return tf.data.Dataset.from_tensor_slices(files).shuffle(len(files), seed=run.config.training.seed_of_data)


def _own_part(run: SampleWorkload, dataset: tf.data.Dataset) -> tf.data.Dataset:
    rank, ranks = run.part
    return dataset.shard(ranks, rank) if ranks > 1 else dataset
