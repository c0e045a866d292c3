"""Batches: one that stays on the device, one that is copied from the host, or records of TFRecords."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.common.options import DataOptions
from benchmarks.common.samples import DataError
from benchmarks.on_tensorflow.target import Target

SETTLE_S = 0.2
PARTS = ("reading", "decompressing", "decoding")  # of the input path
DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}  # half the bytes on their way to a device
COPIED_AHEAD = 2  # batches: one is trained on

# From a serialised example to a sample and its label.
Decode = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


class Parallel(NamedTuple):
    """How much of the input path goes on at a time."""

    files: int  # that are read
    decoders: int  # records of which samples are made


class Counts:
    """Counts of what has been read from files so far."""

    def __init__(self) -> None:
        with tf.device("CPU:0"):
            counter = lambda dtype: tf.Variable(0, dtype=dtype, trainable=False)  # noqa: E731
            self.tried, self.used = counter(tf.int64), counter(tf.int64)  # records, and those that made a sample
            self.size_bytes = counter(tf.int64)  # of all of them
            # Of whole files, where they are read so: those that were begun, and those that came.
            self.opens, self.arrived = counter(tf.int64), counter(tf.int64)
            # Of the parts of the input path, over all that go on side by side, where they are told apart.
            self.parts_s = {name: counter(tf.float64) for name in PARTS}

    def timed(self, part: str, work: Callable[[Any], Any], given: Any) -> Any:
        """Apply one part's work to a tensor within a data set's function, and count its time."""
        with tf.control_dependencies([given]):
            begun_s = tf.timestamp()
        with tf.control_dependencies([begun_s]):
            made = tf.nest.map_structure(tf.identity, work(tf.identity(given)))
        with tf.control_dependencies(tf.nest.flatten(made)):
            counted = self.parts_s[part].assign_add(tf.timestamp() - begun_s)
        with tf.control_dependencies([counted]):
            return tf.nest.map_structure(tf.identity, made)

    def count_use(self, sample: Any, label: Any) -> tuple[Any, Any]:
        """Return both, within a data set's function, once their record is counted as used."""
        with tf.control_dependencies([sample, label]), tf.control_dependencies([self.used.assign_add(1)]):
            return tf.identity(sample), tf.identity(label)


class Batches:
    """Samples and labels of this process, without an end.

    Where the process drives several devices, it is one such batch for each.
    """

    def __init__(
        self,
        options: DataOptions,
        target: Target,
        batch_size: int,
        made: Callable[[int], tuple[Any, Any]],
        read: Callable[[int, Counts, Parallel], tf.data.Dataset],
    ) -> None:
        """Open what the options ask for: batches that are `read` and counted, or a batch of so many that is `made`.

        The latter stays on the device, or is copied from the host each time.
        """
        self._target, self._counts = target, Counts()
        of_process = batch_size * target.local_devices
        self._iterator: Iterator[tuple[Any, Any]]
        if options.data == "synthetic":
            self._iterator = itertools.repeat(self._share_out(*made(of_process)))
            return
        if options.reads_files:
            dataset = read(of_process, self._counts, Parallel(options.parallel_files, target.decoders))
        else:
            on_host = tuple(part.numpy() for part in made(of_process))
            dataset = tf.data.Dataset.from_tensors(on_host).repeat()
        self._iterator = iter(to_device(dataset, target, options.prefetch_batches))

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

    def copy_s(self) -> float | None:
        """Seconds that the next batch takes from the host to a GPU once more; None where it is computed on the host."""
        if not self._target.on_gpu:
            return None
        first = tf.nest.map_structure(
            lambda part: self._target.strategy.experimental_local_results(part)[0], next(self)
        )
        on_host = [part.numpy() for part in first]
        start_s = time.monotonic()
        with tf.device("GPU:0"):
            copied = [tf.identity(tf.constant(part)) for part in on_host]
        float(tf.reduce_sum(tf.cast(tf.reshape(copied[0], [-1])[:1], tf.float32)))  # which waits for it
        return time.monotonic() - start_s

    def read_so_far(self, unit: str) -> dict[str, float]:
        """Return the amounts read from files; leave out those that are not counted separately."""
        counts = self._counts
        found = {f"input_{unit}s": int(counts.used), "input_bytes": int(counts.size_bytes)}
        if counts.opens:
            found["input_opens"] = int(counts.opens)
        return found | {f"input_{name}_s": float(spent_s) for name, spent_s in counts.parts_s.items() if spent_s}

    def records(self) -> tuple[int, int]:
        """Return the number of records read from files, and how many of them could not be used."""
        counts, before = self._counts, None
        while before != (now := (int(counts.tried), int(counts.used), int(counts.opens))):  # some may be in the works
            before = now
            time.sleep(SETTLE_S)
        lost = int(counts.opens) - int(counts.arrived)
        return now[0] + lost, now[0] - now[1] + lost


def to_device(dataset: tf.data.Dataset, target: Target, prefetch_batches: int) -> tf.data.Dataset:
    """Batches made ahead: copied to a process's one GPU while it trains on the ones before, else in the node."""
    # tf.data's tuning would choose other numbers of threads from run to run, and its own thread sleeps up to a minute
    # between two looks, for which the end of a data set waits.
    options = tf.data.Options()
    options.autotune.enabled = False
    ahead = dataset.prefetch(prefetch_batches).with_options(options)
    if target.on_gpu and target.local_devices == 1:
        return ahead.apply(tf.data.experimental.prefetchto_device("/GPU:0", COPIED_AHEAD))
    return ahead


def counted(decode: Decode, counts: Counts) -> Decode:
    """Return the same decoder, which also counts each record as used or damaged."""

    def decode_counted(serialised: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.strings.length(serialised)
        with tf.control_dependencies(
            [counts.tried.assign_add(1), counts.size_bytes.assign_add(tf.cast(size, tf.int64))]
        ):
            return counts.count_use(*decode(tf.identity(serialised)))

    return decode_counted


def whole_files(
    files: Sequence[Path],
    decode: Decode,
    counts: Counts,
    batch_size: int,
    seed: int,
    parallel: Parallel,
    shares: tuple[int, int],
) -> tf.data.Dataset:
    """The same, of files that hold one record each, packed with GZIP: what each part of the input path takes is known.

    Of a damaged file GZIP's own sum tells, so that the record's two are not computed once more.
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

    rank, ranks = shares
    dataset = tf.data.Dataset.from_tensor_slices([str(file) for file in files]).shuffle(len(files), seed=seed)
    if ranks > 1:
        dataset = dataset.shard(ranks, rank)
    dataset = dataset.map(read, num_parallel_calls=parallel.files, deterministic=False).ignore_errors()
    dataset = dataset.map(unpack, num_parallel_calls=parallel.decoders, deterministic=False).ignore_errors()
    return dataset.repeat().batch(batch_size, drop_remainder=True)


def _only_example(record: tf.Tensor) -> tf.Tensor:
    """The serialised example of a file of one: its length in 8 bytes and their sum in 4 come before, its own after."""
    length = tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]
    size = tf.strings.length(record)
    whole = tf.debugging.assert_equal(length, tf.cast(size, tf.int64) - 16)
    with tf.control_dependencies([whole]):
        return tf.strings.substr(record, 12, size - 16)


def records(
    files: Sequence[Path], decode: Decode, batch_size: int, seed: int, parallel: Parallel, shares: tuple[int, int]
) -> tf.data.Dataset:
    """Batches of what is decoded from a rank's files, in another order each time they are read.

    `shares` is the rank and the number of those that share these files, of which each takes some records.
    """
    dataset = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
    dataset = dataset.shuffle(len(files), seed=seed).interleave(
        # The rest of a file that is cut short is lost, and no other file's.
        lambda file: tf.data.TFRecordDataset(file).ignore_errors(),
        cycle_length=parallel.files,
        num_parallel_calls=parallel.files,
        deterministic=False,
    )
    rank, ranks = shares
    if ranks > 1:
        dataset = dataset.shard(ranks, rank)
    dataset = dataset.shuffle(16 * batch_size, seed=seed)
    dataset = dataset.map(decode, num_parallel_calls=parallel.decoders, deterministic=False).ignore_errors()
    return dataset.repeat().batch(batch_size, drop_remainder=True)
