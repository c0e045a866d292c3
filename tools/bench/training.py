"""Speed of the training benchmarks on a CPU, as users start them, against the same models without the suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.common.launch import Launch
from benchmarks.common.run import RESULT_PREFIX
from benchmarks.common.session import parse_options
from record.derivation import derive
from record.model import Record
from tools.bench.harness import Table

ROUNDS, STEPS = 3, 8
RANKS = "-m torch.distributed.run --standalone --local-addr 127.0.0.1 --nproc-per-node 2"


def trained(workload: str, flags: str, unit: str, start: str = "") -> float:
    """Return the throughput that the benchmark states."""
    steps = f"--warmup-steps 2 --measured-steps {STEPS} --min-measured-s 0 --print-record"
    command = [sys.executable, *f"{start} -m benchmarks.{workload} --device cpu {flags} {steps}".split()]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [line] = [line for line in printed.splitlines() if line.startswith(RESULT_PREFIX)]
    record = derive(Record.of(json.loads(line.removeprefix(RESULT_PREFIX))))
    return record.metrics.number(f"{unit}_per_s") or 0.0


def rate(work: float, step: Callable[[], object], steps: int = 1) -> float:
    """Return the work per second of a program that makes some steps, or several of one step."""
    start_s = time.perf_counter()
    for _ in range(steps):
        step()
    return steps * work / (time.perf_counter() - start_s)


def from_files(table: Table, name: str, workload: str, flags: str, unit: str, data: str, files: str) -> None:
    """Compare training on files, which are generated, with training on data in memory."""
    with tempfile.TemporaryDirectory() as folder:
        prepare = f"-m benchmarks.{workload.removesuffix('_torch')}.prepare --out {folder} {files}"
        subprocess.run([sys.executable, *prepare.split()], check=True, stdout=subprocess.DEVNULL)
        pair = {"ours": partial(trained, workload, f"{flags} --data {data} --data-dir {folder}", unit)}
        pair["itself on data in memory"] = partial(trained, workload, flags, unit)
        table.compare(f"{name}, from files", f"{unit}/s", ROUNDS, pair)


def gpt(table: Table) -> None:
    """Compare megatron-core with a plain GPT, two ranks with one, and preparing text with its tokenizer alone."""
    import torch

    from benchmarks.llm_training.corpus import installed_texts
    from benchmarks.llm_training.data import SyntheticSamples, micro_batches
    from benchmarks.llm_training.gpt.plain_gpt import PlainGpt
    from benchmarks.llm_training.prepare import train_tokenizer, write_indexed
    from benchmarks.llm_training.sizes import GPT2_VOCAB_SIZE
    from benchmarks.llm_training.train import Gpt

    flags = "--global-batch-size 8"
    run = Gpt(parse_options(Gpt, f"--device cpu {flags}".split()), Launch())
    shape, plan, training = run.config.model.shape, run.batches, run.config.training
    model = PlainGpt(shape, shape.sequence_length)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=training.weight_decay, fused=True)
    samples = SyntheticSamples(shape.vocab_size, shape.sequence_length, training.seed)
    batches = micro_batches(samples, plan, 0, torch.device("cpu"))

    def step() -> None:
        adam.zero_grad()
        for _ in range(plan.grad_accum_steps):
            batch = next(batches)
            (model(batch["tokens"], batch["labels"]) / plan.grad_accum_steps).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip)
        adam.step()

    own = partial(trained, "llm_training", flags, "tokens")
    pair = {"ours": own, "plain PyTorch": partial(rate, 8 * shape.sequence_length, step, STEPS)}
    table.compare("GPT, megatron-core", "tokens/s", ROUNDS, pair)
    pair = {"ours": partial(trained, "llm_training", "--global-batch-size 16 --threads 1", "tokens", RANKS)}
    pair["1 rank of 2 threads"] = partial(trained, "llm_training", "--global-batch-size 16 --threads 2", "tokens")
    table.compare("GPT, 2 ranks", "tokens/s", ROUNDS, pair, least_ratio=0.9)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = list(installed_texts())
    tokenizer, size_mb = train_tokenizer(texts, GPT2_VOCAB_SIZE), sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        prepare = partial(write_indexed, f"{folder}/text", tokenizer, texts, GPT2_VOCAB_SIZE)
        programs = {"ours": prepare, "its tokenizer alone": partial(tokenizer.encode_batch_fast, texts)}
        pair = {name: partial(rate, size_mb, program) for name, program in programs.items()}
        table.compare("GPT, text prepared on one core", "MB/s", 1, pair)


def resnet(table: Table, batch: int = 8) -> None:
    """Compare ResNet-50 with Keras, bf16 with float32, and reading files with data in memory."""
    import keras
    import tensorflow as tf

    from benchmarks.on_tensorflow.target import choose_target
    from benchmarks.resnet50 import data, model
    from benchmarks.resnet50.config import NUM_CLASSES
    from benchmarks.resnet50.train import ResNet50

    flags = f"--image-size 224 --global-batch-size {batch}"
    config: Any = parse_options(ResNet50, f"--device cpu {flags}".split())
    choose_target(config.compute, Launch())  # sets the threads of TensorFlow
    training = config.training
    fitted = model.build_model(config.model.variant, 224, training.seed)
    step_size = training.learning_rate * batch / 256 / training.learning_rate_warmup_steps
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=training.label_smoothing)
    fitted.compile(keras.optimizers.SGD(step_size, training.momentum), loss, jit_compile=False)
    images, labels = data.made_batch(config, batch, 0)
    batches = tf.data.Dataset.from_tensors((images, tf.one_hot(labels, NUM_CLASSES))).repeat()
    own = partial(trained, "resnet50", f"{flags} --precision fp32", "images")
    fit = partial(fitted.fit, batches, steps_per_epoch=STEPS, epochs=1, verbose=0)
    pair = {"ours": own, "Keras model.fit": partial(rate, STEPS * batch, fit)}
    table.compare("ResNet-50", "images/s", ROUNDS, pair, least_ratio=1)
    pair = {"ours": partial(trained, "resnet50", f"{flags} --precision bf16", "images"), "ours in float32": own}
    table.compare("ResNet-50 in bf16", "images/s", ROUNDS, pair)
    from_files(table, "ResNet-50", "resnet50", flags, "images", "fake-imagenet", "--images 256")


def resnet_torch(table: Table, batch: int = 8) -> None:
    """Compare ResNet-50 in PyTorch with the usual loop, and reading files with data in memory."""
    import torch

    from benchmarks.resnet50_torch.config import NUM_CLASSES
    from benchmarks.resnet50_torch.model import import_torchvision

    import_torchvision()
    from torchvision.models import resnet50

    model = resnet50().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-5)
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    images, labels = torch.randn(batch, 3, 224, 224), torch.randint(NUM_CLASSES, (batch,))
    images = images.contiguous(memory_format=torch.channels_last)

    def step() -> None:
        optimizer.zero_grad()
        loss(model(images), labels).backward()
        optimizer.step()

    flags = f"--image-size 224 --global-batch-size {batch}"
    own = partial(trained, "resnet50_torch", flags, "images")
    pair = {"ours": own, "plain PyTorch": partial(rate, batch, step, STEPS)}
    table.compare("ResNet-50 in PyTorch", "images/s", ROUNDS, pair, least_ratio=0.95)
    files = "--folders --images 256"
    from_files(table, "ResNet-50 in PyTorch", "resnet50_torch", flags, "images", "fake-imagenet", files)


def cosmoflow(table: Table, batch: int = 2, size: int = 128) -> None:
    """Compare CosmoFlow with Keras, and reading files with data in memory."""
    import keras
    import tensorflow as tf
    from keras import layers

    from benchmarks.cosmoflow.config import HIDDEN, KERNEL_SIZE, PARAMETERS, REDSHIFTS, WIDTHS
    from benchmarks.cosmoflow.data import made_batch

    # The same layers in the reference's order, with Keras' own dropout.
    parts: list[Any] = [keras.Input((*[size] * 3, REDSHIFTS))]
    for width in WIDTHS:
        parts += [layers.Conv3D(width, KERNEL_SIZE, padding="same"), layers.LeakyReLU(), layers.MaxPooling3D(2)]
    parts.append(layers.Flatten())
    for width in HIDDEN:
        parts += [layers.Dense(width), layers.LeakyReLU(), layers.Dropout(0.5)]
    model = keras.Sequential([*parts, layers.Dense(PARAMETERS, activation="tanh"), layers.Rescaling(1.2)])
    model.compile(keras.optimizers.SGD(0.001, momentum=0.9), "mse", jit_compile=False)
    volumes = tf.data.Dataset.from_tensors(made_batch(size, 1, batch, 0)).repeat()
    batches = volumes.map(lambda counts, wanted: (tf.math.log1p(tf.cast(counts, tf.float32)), wanted)).prefetch(2)
    flags = f"--size {size} --global-batch-size {batch}"
    fit = partial(model.fit, batches, steps_per_epoch=STEPS, epochs=1, verbose=0)
    pair = {
        "ours": partial(trained, "cosmoflow", flags, "samples"),
        "Keras model.fit": partial(rate, STEPS * batch, fit),
    }
    table.compare("CosmoFlow", "samples/s", ROUNDS, pair)
    from_files(table, "CosmoFlow", "cosmoflow", flags, "samples", "fake-cosmoflow", f"--size {size} --samples 16")


def deepcam(table: Table, batch: int = 2, size: str = "192x288") -> None:
    """Compare DeepCAM with the same model in PyTorch's usual loop, and reading files with data in memory."""
    import torch
    from torch import nn

    from benchmarks.deepcam.config import CLASSES, FREQUENCIES, SIZES, WEIGHT_POWER
    from benchmarks.deepcam.model import build_model

    model = build_model(1)
    optimizer = torch.optim.AdamW(model.parameters(), 0.001)
    weights = torch.tensor([frequency**WEIGHT_POWER for frequency in FREQUENCIES])
    fields, labels = torch.rand(batch, 16, *SIZES[size]), torch.randint(CLASSES, (batch, *SIZES[size]))

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(fields), labels, weights, reduction="none").mean()
        loss.backward()
        optimizer.step()
        loss.item()

    flags = f"--size {size} --global-batch-size {batch}"
    pair = {"ours": partial(trained, "deepcam", flags, "samples"), "plain PyTorch": partial(rate, batch, step, STEPS)}
    table.compare("DeepCAM", "samples/s", ROUNDS, pair, least_ratio=0.97)
    from_files(table, "DeepCAM", "deepcam", flags, "samples", "fake-deepcam", f"--size {size}")


def fno(table: Table, batch: int = 20, size: str = "tiny") -> None:
    """Compare FNO with the package's own model in PyTorch's usual loop."""
    import torch
    from neuralop.models.fno import FNO

    from benchmarks.fno.config import LAYERS, SIZES
    from benchmarks.fno.model import EXPANSION

    grid, fields, modes, width = SIZES[size]
    ratios = {"lifting_channel_ratio": EXPANSION, "projection_channel_ratio": EXPANSION}
    options = {"n_layers": LAYERS, "use_channel_mlp": False, "positional_embedding": None, **ratios}
    model = FNO(modes, fields, fields, width, **options)
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    before, after = torch.rand(batch, fields, *grid), torch.rand(batch, fields, *grid)

    def step() -> None:
        optimizer.zero_grad()
        errors = torch.linalg.vector_norm((model(before) - after).flatten(1), dim=1)
        loss = (errors / torch.linalg.vector_norm(after.flatten(1), dim=1)).mean()
        loss.backward()
        optimizer.step()
        loss.item()

    flags = f"--size {size} --global-batch-size {batch}"
    pair = {"ours": partial(trained, "fno", flags, "timesteps"), "plain PyTorch": partial(rate, batch, step, STEPS)}
    table.compare("FNO", "timesteps/s", ROUNDS, pair, least_ratio=0.95)
