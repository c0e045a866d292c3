"""Speed of CosmoFlow on a CPU against Keras' model.fit of the same model, and of its input path against bare tf.data.

All are in one process and take turns. Ratios above 1 are faster than the peer.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.common.launch import Launch
from benchmarks.common.options import option, run_command
from benchmarks.common.session import parse_options
from benchmarks.common.tests.side_by_side import in_turns
from benchmarks.cosmoflow import prepare
from benchmarks.cosmoflow.config import HIDDEN, KERNEL_SIZE, PARAMETERS, REDSHIFTS, WIDTHS
from benchmarks.cosmoflow.train import CosmoFlow
from jpwr.regions import RegionTimer

SAMPLES = 16  # that are read in a round


@dataclass(frozen=True)
class BenchOptions:
    """Comparison."""

    rounds: int = option(5, "times that each is measured")
    steps: int = option(1, "optimizer steps per round")
    batch_size: int = option(2, "volumes per optimizer step")
    size: int = option(128, "voxels along a volume's edge")


def bench(options: BenchOptions) -> None:
    """Print both comparisons."""
    from benchmarks.on_tensorflow.target import choose_target

    target = choose_target(run_of(options).config.compute, Launch())
    volumes = options.steps * options.batch_size
    in_turns(options.rounds, volumes, "volumes", "ours", ours(options, target), {"Keras model.fit": keras_fit(options)})
    with tempfile.TemporaryDirectory() as folder:
        prepare.prepare(prepare.PrepareOptions(out=folder, size=options.size, samples=SAMPLES))
        run = run_of(options, "--data", "cosmoflow", "--data-dir", folder)
        mb = sum(path.stat().st_size for path in run.files) / 1e6
        in_turns(
            options.rounds,
            mb,
            "MB of files",
            "input path alone",
            consumed(run.open_batches(target), options),
            {"bare tf.data": consumed(bare(run, options), options)},
        )


def run_of(options: BenchOptions, *flags: str) -> CosmoFlow:
    sizes = ["--size", str(options.size), "--global-batch-size", str(options.batch_size)]
    run = CosmoFlow(parse_options(CosmoFlow, ["--device", "cpu", *sizes, *flags]), Launch())
    run.regions = RegionTimer()
    run.regions.recording = False
    return run


def ours(options: BenchOptions, target: Any) -> Callable[[], None]:
    """The benchmark's own steps, on a batch that is in memory."""
    run = run_of(options)
    trainer, batches = run.open_trainer(target), run.open_batches(target)

    def train() -> None:
        for _ in range(options.steps):
            trainer.call(batches)
        trainer.synchronize()

    return train


def keras_fit(options: BenchOptions) -> Callable[[], object]:
    """The same layers in the reference's order under model.fit, with Keras' own dropout."""
    import keras
    import tensorflow as tf
    from keras import layers

    from benchmarks.cosmoflow.data import made_batch

    parts: list[Any] = [keras.Input((*[options.size] * 3, REDSHIFTS))]
    for width in WIDTHS:
        parts += [layers.Conv3D(width, KERNEL_SIZE, padding="same"), layers.LeakyReLU(), layers.MaxPooling3D(2)]
    parts.append(layers.Flatten())
    for width in HIDDEN:
        parts += [layers.Dense(width), layers.LeakyReLU(), layers.Dropout(0.5)]
    model = keras.Sequential([*parts, layers.Dense(PARAMETERS, activation="tanh"), layers.Rescaling(1.2)])
    model.compile(keras.optimizers.SGD(0.001, momentum=0.9), "mse", jit_compile=False)
    counts, wanted = made_batch(options.size, 1, options.batch_size, 0)
    of_counts = tf.data.Dataset.from_tensors((counts, wanted)).repeat()
    batches = of_counts.map(lambda one, targets: (tf.math.log1p(tf.cast(one, tf.float32)), targets)).prefetch(2)
    return lambda: model.fit(batches, steps_per_epoch=options.steps, epochs=1, verbose=0)


def bare(run: CosmoFlow, options: BenchOptions) -> Iterator[Any]:
    """TensorFlow's own reader of packed records, and what makes counts of them."""
    import tensorflow as tf

    from benchmarks.cosmoflow.data import decoder

    files = tf.data.Dataset.from_tensor_slices([str(path) for path in run.files]).shuffle(len(run.files))
    records = files.interleave(
        lambda file: tf.data.TFRecordDataset(file, "GZIP"), num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    samples = records.map(decoder(options.size), num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return iter(samples.repeat().batch(options.batch_size, drop_remainder=True).prefetch(2))


def consumed(batches: Iterator[Any], options: BenchOptions) -> Callable[[], None]:
    """As many batches as hold all samples once."""

    def consume() -> None:
        for _ in range(SAMPLES // options.batch_size):
            next(batches)

    return consume


main = partial(run_command, BenchOptions, "python -m benchmarks.cosmoflow.tests.bench", __doc__, bench)

if __name__ == "__main__":
    sys.exit(main())
