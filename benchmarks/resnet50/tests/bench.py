"""Speed of the benchmark on a CPU against Keras' model.fit of the same model and a plain PyTorch ResNet-50.

All are in one process and take turns, so that whatever else the machine does falls on all. Also the rate of the input
path alone. Ratios above 1 are faster than the peer.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.common.launch import Launch, usable_cores
from benchmarks.common.options import ConfigError, option, run_command
from benchmarks.common.session import parse_options
from benchmarks.common.tests.side_by_side import in_turns
from benchmarks.resnet50 import prepare
from benchmarks.resnet50.config import EXPANSION, NUM_CLASSES, STAGES, Config
from benchmarks.resnet50.train import ResNet50
from jpwr.regions import RegionTimer


@dataclass(frozen=True)
class BenchOptions:
    """Comparison."""

    rounds: int = option(6, "times that each is measured")
    steps: int = option(2, "optimizer steps per round")
    batch_size: int = option(8, "images per optimizer step")
    image_size: int = option(224, "height and width of an image")


def bench(options: BenchOptions) -> None:
    """Print all comparisons."""
    compare(options)
    input_path(options)


def configure(options: BenchOptions, *flags: str) -> Config:
    sizes = ["--image-size", str(options.image_size), "--global-batch-size", str(options.batch_size)]
    config: Config = parse_options(ResNet50, ["--device", "cpu", *sizes, *flags])
    return config


def compare(options: BenchOptions) -> None:
    """Print our speed over that of Keras and of PyTorch, and in bf16 over that in float32."""
    from benchmarks.on_tensorflow.target import choose_target

    config = configure(options)
    target = choose_target(config.compute, Launch())
    peers = {
        "Keras model.fit": keras_fit(config, target, options),
        "plain PyTorch": plain_pytorch(config, options),
    }
    images = options.steps * options.batch_size
    in_turns(options.rounds, images, "images", "ours", ours(config, options), peers)
    try:
        faster = ours(replace(config, compute=replace(config.compute, precision="bf16")), options)
    except ConfigError as error:
        print(f"bf16: not measured: {error}")
        return
    same = {"ours in float32": ours(config, options)}
    in_turns(options.rounds, images, "images", "ours in bf16", faster, same)


def ours(config: Config, options: BenchOptions) -> Callable[[], None]:
    """The benchmark's own steps, on a batch that is in memory."""
    from benchmarks.on_tensorflow.target import choose_target

    target = choose_target(config.compute, Launch())
    run = ResNet50(config, Launch())
    run.regions = RegionTimer()
    run.regions.recording = False
    own, batches = run.open_trainer(target), run.open_batches(target)

    def train() -> None:
        for _ in range(options.steps):
            own.call(batches)
        own.synchronize()

    return train


def keras_fit(config: Config, target: Any, options: BenchOptions) -> Callable[[], None]:
    """The same model, loss, optimizer and batch under model.fit."""
    import keras
    import tensorflow as tf

    from benchmarks.resnet50 import data, model

    training = config.training
    fitted = model.build_model(config.model.variant, config.model.image_size, training.seed)
    rate = training.learning_rate * options.batch_size / 256 / training.learning_rate_warmup_steps
    fitted.compile(
        keras.optimizers.SGD(rate, momentum=training.momentum),
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=training.label_smoothing),
        jit_compile=False,
    )
    images, labels = data.made_batch(config, options.batch_size, 0)
    batch = tf.data.Dataset.from_tensors((images, tf.one_hot(labels, NUM_CLASSES))).repeat()

    def fit() -> None:
        fitted.fit(batch, steps_per_epoch=options.steps, epochs=1, verbose=0)

    return fit


def plain_pytorch(config: Config, options: BenchOptions) -> Callable[[], None]:
    """ResNet-50 v1.5 written in PyTorch alone, with channels last, as is fastest on a CPU."""
    import torch
    from torch import Tensor, nn

    torch.set_num_threads(usable_cores())

    def unit(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    class Block(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = EXPANSION * width
            self.first, self.second = unit(inputs, width, 1), unit(width, width, 3, stride)
            self.third = unit(width, outputs, 1)
            self.shortcut = unit(inputs, outputs, 1, stride) if inputs != outputs else nn.Identity()

        def forward(self, x_NCHW: Tensor) -> Tensor:
            inner = self.third(self.second(self.first(x_NCHW).relu_()).relu_())
            whole_NCHW: Tensor = inner + self.shortcut(x_NCHW)
            return whole_NCHW.relu_()

    blocks: list[nn.Module] = []
    inputs = 64
    for stage, (count, width) in enumerate(STAGES):
        for index in range(count):
            blocks.append(Block(inputs, width, 2 if stage and not index else 1))
            inputs = EXPANSION * width
    network: Any = nn.Sequential(
        unit(3, 64, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(inputs, NUM_CLASSES),
    )
    network.to(memory_format=torch.channels_last)
    loss_of = nn.CrossEntropyLoss(label_smoothing=config.training.label_smoothing)
    optimizer = torch.optim.SGD(
        network.parameters(), 1e-4, momentum=config.training.momentum, weight_decay=config.training.weight_decay
    )
    images = torch.randn(options.batch_size, 3, options.image_size, options.image_size)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(NUM_CLASSES, (options.batch_size,))

    def train() -> None:
        for _ in range(options.steps):
            optimizer.zero_grad()
            loss = loss_of(network(images), labels)
            loss.backward()
            optimizer.step()
        loss.item()

    return train


def input_path(options: BenchOptions) -> None:
    """Print the rate at which JPEGs are read, decoded and augmented, with nothing trained.

    The peer is the bare tf.data pipeline, without what counts records and shares them out.
    """
    import tensorflow as tf

    from benchmarks.on_tensorflow.target import choose_target
    from benchmarks.on_tensorflow.tfrecords import Parallel, records
    from benchmarks.resnet50 import data

    batches = 32

    def consume(iterator: Iterator[Any]) -> Callable[[], None]:
        def some() -> None:
            for _ in range(batches):
                next(iterator)

        return some

    with tempfile.TemporaryDirectory() as folder:
        prepare.prepare(prepare.PrepareOptions(out=folder, images=256))
        config = configure(options, "--data", "fake-imagenet", "--data-dir", folder)
        target = choose_target(config.compute, Launch())
        run = ResNet50(config, Launch())
        seed, beside = config.training.seed, Parallel(config.data.parallel_files, tf.data.AUTOTUNE)
        bare = records(run.files, data.decoder(config, target), options.batch_size, seed, beside, run.shares)
        peers = {"bare tf.data": consume(iter(bare.prefetch(config.data.prefetch_batches)))}
        own = consume(run.open_batches(target))
        in_turns(options.rounds, batches * options.batch_size, "images", "input path alone", own, peers)
    print(f"usable cores: {usable_cores()}")


main = partial(run_command, BenchOptions, "python -m benchmarks.resnet50.tests.bench", __doc__, bench)

if __name__ == "__main__":
    sys.exit(main())
