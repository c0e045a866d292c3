"""Speed of the training benchmarks on a CPU, as users start them, against the same models without the suite."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.common.session import parse_options
from benchmarks.common.tests.started import recorded
from benchmarks.common.workload import Workload
from benchmarks.deepcam.train import DeepCam
from benchmarks.fno.train import Fno
from benchmarks.llm_training.sizes import SIZES
from benchmarks.resnet50_torch.train import ResNet50
from jpwr.regions import RegionTimer
from tools.bench.harness import Line, in_turns

ROUNDS, STEPS = 3, 8
LENGTH = SIZES["tiny"].sequence_length
FOREVER = ExitStack()  # of devices
Program = Callable[[], Any]


def trained(workload: str, unit: str, flags: str, workers: int = 0) -> float:
    """Return the throughput that the benchmark states."""
    steps = f"--warmup-steps 2 --measured-steps {STEPS} --min-measured-s 0"
    with tempfile.TemporaryDirectory() as folder:
        program = f"benchmarks.{workload}"
        record = recorded(Path(folder, "record.json"), program, *f"{flags} {steps}".split(), workers=workers)
    return float(record["metrics"][f"{unit}_per_s"])


def rate(work: float, program: Program) -> float:
    """Return the work of a program per second."""
    start_s = time.perf_counter()
    program()
    return work / (time.perf_counter() - start_s)


def _loop(optimizer: Any, backward: Program) -> Program:
    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            backward()
            optimizer.step()

    return steps


def _fit(model: Any, batches: Any) -> Program:
    return partial(model.fit, batches, steps_per_epoch=STEPS, epochs=1, verbose=0)


def _plain_gpt(_: str) -> Program:
    import torch

    from benchmarks.llm_training.gpt.plain_gpt import PlainGpt

    size = SIZES["tiny"]
    model, samples = PlainGpt(size, LENGTH), torch.randint(size.vocab_size, (8, LENGTH + 1))

    def backward() -> None:
        for part in samples.split(size.micro_batch_size):
            (model(part[:, :-1], part[:, 1:]) * len(part) / len(samples)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    return _loop(torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True), backward)


def _keras_resnet(_: str) -> Program:
    import keras
    import tensorflow as tf

    from benchmarks.resnet50.model import build_model

    model = build_model("v1.5", 224, 1)
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(keras.optimizers.SGD(3e-5, 0.9), loss, jit_compile=False)
    images, labels = tf.random.normal((8, 224, 224, 3)), tf.one_hot(tf.range(8), 1000)
    return _fit(model, tf.data.Dataset.from_tensors((images, labels)).repeat())


def _keras_cosmoflow(_: str) -> Program:
    import keras
    import tensorflow as tf
    from keras import layers

    from benchmarks.cosmoflow.config import HIDDEN, KERNEL_SIZE, PARAMETERS, REDSHIFTS, WIDTHS
    from benchmarks.cosmoflow.data import made_batch

    # The same layers in the reference's order, with Keras' own dropout.
    parts: list[Any] = [keras.Input((128, 128, 128, REDSHIFTS))]
    for width in WIDTHS:
        parts += [layers.Conv3D(width, KERNEL_SIZE, padding="same"), layers.LeakyReLU(), layers.MaxPooling3D(2)]
    parts.append(layers.Flatten())
    for width in HIDDEN:
        parts += [layers.Dense(width), layers.LeakyReLU(), layers.Dropout(0.5)]
    model = keras.Sequential([*parts, layers.Dense(PARAMETERS, activation="tanh"), layers.Rescaling(1.2)])
    model.compile(keras.optimizers.SGD(0.001, momentum=0.9), "mse", jit_compile=False)
    volumes = tf.data.Dataset.from_tensors(made_batch(128, 1, 2, 0)).repeat()
    logs = volumes.map(lambda counts, wanted: (tf.math.log1p(tf.cast(counts, tf.float32)), wanted))
    return _fit(model, logs.prefetch(2))


def _same_model(workload: type[Workload], flags: str) -> Program:
    """Return PyTorch's usual loop with the model, the loss and the optimizer of a workload, on one batch."""
    options = parse_options(workload, flags.split())
    run: Any = workload(options, Launch())
    run.regions = RegionTimer()
    target = FOREVER.enter_context(run.open(RunRecord(run.name, "", "", "", asdict(options))))
    trainer = run.open_trainer(target)
    samples, labels = next(run.made_passes(target).on_device())
    return _loop(trainer.optimizer, lambda: trainer.loss_of(trainer.model(samples), labels).backward())


class Bench(NamedTuple):
    """A workload with its flags, a peer, which makes a program of STEPS steps from them, and what makes its files."""

    title: str
    unit: str
    batch: int
    flags: str
    peer: str
    program: Callable[[str], Program]
    least_ratio: float = 0.0
    prepare: str = ""
    work_per_sample: int = 1


PYTORCH, KERAS, RESNET = "plain PyTorch", "Keras model.fit", partial(_same_model, ResNet50)
FIELDS, VOLUMES = "deepcam.prepare --size 192x288", "cosmoflow.prepare --size 128 --samples 16"
RECORDS, JPEGS = "resnet50.prepare --images 256", "resnet50.prepare --images 256 --folders"
BENCHES = {
    "llm_training": Bench("GPT, megatron-core", "tokens", 8, "", PYTORCH, _plain_gpt, work_per_sample=LENGTH),
    "resnet50": Bench("ResNet-50", "images", 8, "--image-size 224", KERAS, _keras_resnet, 1, RECORDS),
    "resnet50_torch": Bench("ResNet-50 in PyTorch", "images", 8, "--image-size 224", PYTORCH, RESNET, 0.95, JPEGS),
    "cosmoflow": Bench("CosmoFlow", "samples", 2, "--size 128", KERAS, _keras_cosmoflow, 0, VOLUMES),
    "deepcam": Bench("DeepCAM", "samples", 2, "--size 192x288", PYTORCH, partial(_same_model, DeepCam), 0.97, FIELDS),
    "fno": Bench("FNO", "timesteps", 20, "--size tiny", PYTORCH, partial(_same_model, Fno), 0.95),
}
BATCH = "--global-batch-size 16"
WITH_ITSELF = {  # what is compared: flags and processes of ours, a name and flags of the other
    "llm_training": ("GPT, 2 ranks", f"{BATCH} --threads 1", 2, "1 rank of 2 threads", f"{BATCH} --threads 2", 0.9),
    "resnet50": ("ResNet-50 in bf16", "--precision bf16", 0, "ours in float32", "--precision fp32", 0.0),
}


def training(workload: str) -> Iterator[Line]:
    """Compare a workload with its peer, and with itself: with other flags, and on files, which are generated."""
    title, unit, batch, flags, name, program, least, prepare, work_per_sample = BENCHES[workload]
    flags = f"--device cpu --global-batch-size {batch} {flags}"

    def own(more: str = "", workers: int = 0) -> Callable[[], float]:
        return partial(trained, workload, unit, f"{flags} {more}", workers)

    pair: dict[str, Program] = {"ours": own(), name: partial(rate, STEPS * batch * work_per_sample, program(flags))}
    yield title, f"{unit}/s", in_turns(ROUNDS, pair), "ratio at least", least
    if workload in WITH_ITSELF:
        what, ours, workers, name, others, least = WITH_ITSELF[workload]
        pair = {"ours": own(ours, workers), name: own(others)}
        yield what, f"{unit}/s", in_turns(ROUNDS, pair), "ratio at least", least
    if prepare:
        data = f"fake-{prepare.partition('.')[0].replace('resnet50', 'imagenet')}"
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, *f"-m benchmarks.{prepare} --out {folder}".split()]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            pair = {"ours": own(f"--data {data} --data-dir {folder}"), "itself on data in memory": own()}
            yield f"{title}, from files", f"{unit}/s", in_turns(ROUNDS, pair)


def text() -> Iterator[Line]:
    """Compare preparing text with its tokenizer alone."""
    from benchmarks.llm_training.corpus import installed_texts
    from benchmarks.llm_training.prepare import train_tokenizer, write_indexed
    from benchmarks.llm_training.sizes import GPT2_VOCAB_SIZE

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = list(installed_texts())
    tokenizer, size_mb = train_tokenizer(texts, GPT2_VOCAB_SIZE), sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        prepare = partial(write_indexed, f"{folder}/text", tokenizer, texts, GPT2_VOCAB_SIZE)
        programs = {"ours": prepare, "its tokenizer alone": partial(tokenizer.encode_batch_fast, texts)}
        pair = {name: partial(rate, size_mb, program) for name, program in programs.items()}
        yield "GPT, text prepared on one core", "MB/s", in_turns(1, pair)
