"""Speed of DeepCAM on a CPU against the same model in a plain PyTorch loop, and of its input path against bare h5py.

All are in one process, but for what reads files, and take turns. Ratios above 1 are faster than the peer.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.common.launch import Launch, usable_cores
from benchmarks.common.options import option, run_command
from benchmarks.common.session import parse_options
from benchmarks.common.tests.side_by_side import in_turns
from benchmarks.deepcam import prepare
from benchmarks.deepcam.config import CLASSES, FREQUENCIES, SIZES, WEIGHT_POWER
from benchmarks.deepcam.train import DeepCam
from jpwr.regions import RegionTimer

SAMPLES = 32  # that are read in a round


@dataclass(frozen=True)
class BenchOptions:
    """Comparison."""

    rounds: int = option(6, "times that each is measured")
    steps: int = option(1, "optimizer steps per round")
    batch_size: int = option(2, "samples per optimizer step")
    size: str = option("192x288", "pixels of a picture", tuple(SIZES))


def bench(options: BenchOptions) -> None:
    """Print both comparisons."""
    import torch

    from benchmarks.on_pytorch.target import choose_target, process_group

    run = run_of(options)
    target = choose_target(run.config.compute, Launch())
    with process_group(target):
        samples = options.steps * options.batch_size
        peers = {"plain PyTorch": plain(options)}
        in_turns(options.rounds, samples, "samples", "ours", ours(run, target, options), peers)
    with tempfile.TemporaryDirectory() as folder:
        prepare.prepare(prepare.PrepareOptions(out=folder, size=options.size, samples=SAMPLES))
        run = run_of(options, "--data", "deepcam", "--data-dir", folder, "--parallel-files", "1")
        mb = sum(path.stat().st_size for path in run.files) / 1e6
        passes = iter(run.file_passes(torch.device("cpu")))

        def own() -> None:
            for _ in range(SAMPLES // options.batch_size):
                next(passes)

        in_turns(options.rounds, mb, "MB of files", "input path of one process", own, {"bare h5py": bare(run, options)})
    print(f"usable cores: {usable_cores()}")


def run_of(options: BenchOptions, *flags: str) -> DeepCam:
    sizes = ["--size", options.size, "--global-batch-size", str(options.batch_size)]
    run = DeepCam(parse_options(DeepCam, ["--device", "cpu", *sizes, *flags]), Launch())
    run.regions = RegionTimer()
    run.regions.recording = False
    return run


def ours(run: DeepCam, target: Any, options: BenchOptions) -> Callable[[], None]:
    """The benchmark's own steps, on a batch that is in memory."""
    training = run.build(target)

    def train() -> None:
        for _ in range(options.steps):
            training.data.call()
        training.losses()

    return train


def plain(options: BenchOptions) -> Callable[[], None]:
    """The same model, loss and optimizer as PyTorch's tutorials write them."""
    import torch
    from torch import nn

    from benchmarks.deepcam.model import build_model

    model = build_model(1)
    optimizer = torch.optim.AdamW(model.parameters(), 0.001)
    weights = torch.tensor([one**WEIGHT_POWER for one in FREQUENCIES])
    fields = torch.rand(options.batch_size, 16, *SIZES[options.size])
    labels = torch.randint(CLASSES, (options.batch_size, *SIZES[options.size]))

    def train() -> None:
        for _ in range(options.steps):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(fields), labels, weights, reduction="none").mean()
            loss.backward()
            optimizer.step()
        loss.item()

    return train


def bare(run: DeepCam, options: BenchOptions) -> Callable[[], None]:
    """Each file read and scaled in this process, and batches of them."""
    import h5py
    import numpy as np
    import torch

    with h5py.File(run.files[0].parent / "stats.h5") as file:
        least, most = file["climate/minval"][...], file["climate/maxval"][...]

    def read() -> None:
        made = []
        for path in run.files:
            with h5py.File(path) as file:
                fields, labels = file["climate/data"][...], file["climate/labels_0"][...].astype(np.int64)
            made.append((torch.from_numpy((fields - least) / (most - least)), torch.from_numpy(labels)))
            if len(made) == options.batch_size:
                _ = [torch.stack(parts) for parts in zip(*made, strict=True)]
                made = []

    return read


main = partial(run_command, BenchOptions, "python -m benchmarks.deepcam.tests.bench", __doc__, bench)

if __name__ == "__main__":
    sys.exit(main())
