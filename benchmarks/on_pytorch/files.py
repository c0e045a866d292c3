"""Passes of a rank: made ones, or samples of files that processes of their own read, a file for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from benchmarks.common.launch import usable_cores
from benchmarks.on_pytorch.target import Target
from benchmarks.on_pytorch.trainer import Pass, PassFeed, Trainer
from benchmarks.on_pytorch.workload import PyTorchWorkload


class DataError(Exception):
    """The data cannot be trained on: one sentence with what was found."""


class Damaged(Exception):
    """A file that cannot be used."""


class Counts(NamedTuple):
    """What was read from files."""

    samples: float = 0
    bytes: float = 0
    opens: float = 0
    damaged: float = 0
    reading_s: float = 0
    decoding_s: float = 0


class Read(NamedTuple):
    """How a file is read; all of it can be sent to another process."""

    sample: tuple[tuple[int, ...], Any]  # shape and type of numpy
    labels: tuple[tuple[int, ...], Any]
    read: Callable[[Path, Any, Any], int]  # a file into a sample and its labels: its bytes; raises OSError or Damaged
    decode: Callable[[Any], None]  # a sample that was read, in its place


class Samples(IterableDataset[tuple[torch.Tensor, torch.Tensor, Counts]]):
    """Passes of this process's files, in another order each time, without an end; damaged files are left out."""

    def __init__(self, files: Sequence[Path], read: Read, in_pass: int, seed: int) -> None:
        self._files, self._read, self._in_pass, self._seed = files, read, in_pass, seed

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, Counts]]:
        """Samples and labels one after the other in memory, and what was read since the pass before."""
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        own, chance = self._files[number::workers], np.random.default_rng((self._seed, number))
        made, counts = 0, np.zeros(len(Counts._fields))
        while True:
            good = 0
            for index in chance.permutation(len(own)):
                if not made:
                    samples, labels = (
                        np.empty((self._in_pass, *shape), kind)
                        for shape, kind in (self._read.sample, self._read.labels)
                    )
                found = self._read_one(own[index], samples[made], labels[made])
                counts += found
                if found.damaged:
                    continue
                good, made = good + 1, (made + 1) % self._in_pass
                if not made:
                    yield torch.from_numpy(samples), torch.from_numpy(labels), Counts(*counts.tolist())
                    counts[:] = 0
            if not good:
                raise DataError(f"no file of the data can be used: {len(own)} were tried, {own[0]} among them")

    def _read_one(self, path: Path, sample: Any, labels: Any) -> Counts:
        begun_s = time.perf_counter()
        try:
            size_bytes = self._read.read(path, sample, labels)
        except (OSError, Damaged):
            return Counts(opens=1, damaged=1, reading_s=time.perf_counter() - begun_s)
        read_s = time.perf_counter()
        self._read.decode(sample)
        return Counts(1, size_bytes, 1, 0, read_s - begun_s, time.perf_counter() - read_s)


class FilePasses:
    """Passes from files, on the device, and what was read for them."""

    def __init__(self, run: PyTorchWorkload, device: torch.device) -> None:
        data, launch = run.config.data, run.launch
        workers = max(1, min(data.parallel_files, len(run.files), usable_cores() // launch.local_world_size))
        each = -(-data.prefetch_batches // workers)
        self.passes_ahead = workers * each
        self._loader = DataLoader(
            Samples(run.files, run.reader(), run.shares.micro_batch_size, run.config.training.seed + launch.rank),
            batch_size=None,
            num_workers=workers,
            prefetch_factor=each,
            pin_memory=device.type == "cuda",
        )
        self._device = device
        self.counts = Counts()

    def __iter__(self) -> Iterator[Pass]:
        for samples, labels, counts in self._loader:
            self.counts = Counts(*(a + b for a, b in zip(self.counts, counts, strict=True)))
            yield to_device(samples, labels, self._device)


class MadePasses:
    """Those of a global batch that is the same for every layout, of which a rank has its part."""

    def __init__(self, run: PyTorchWorkload, device: torch.device) -> None:
        plan = run.shares
        self._device, self.on_host = device, []
        for index in range(plan.grad_accum_steps):
            made = [run.made_sample(number) for number in plan.sample_indices(0, index, run.launch.rank)]
            samples, labels = (torch.from_numpy(np.stack(parts)) for parts in zip(*made, strict=True))
            self.on_host.append((samples, labels))

    def on_device(self) -> Iterator[Pass]:
        """They stay there."""
        kept = [to_device(*one, self._device) for one in self.on_host]
        while True:
            yield from kept

    def from_host(self) -> Iterator[Pass]:
        """They are copied each time."""
        while True:
            for one in self.on_host:
                yield to_device(*one, self._device)


def to_device(samples: torch.Tensor, labels: torch.Tensor, device: torch.device) -> Pass:
    """Samples whose channels come last in memory, as they are stored, and second in shape; labels as indices."""
    samples, labels = (part.to(device, non_blocking=True) for part in (samples, labels))
    return samples.movedim(-1, 1), labels.long()


class Feed(PassFeed):
    """An Input: steps on samples."""

    def __init__(self, trainer: Trainer, passes: Iterable[Pass], run: PyTorchWorkload, target: Target) -> None:
        super().__init__(trainer, passes, run.regions)
        self._files = passes if isinstance(passes, FilePasses) else None
        self._run, self._target = run, target
        self.steps_ahead = -(-self._files.passes_ahead // trainer.passes) if self._files else 0

    @property
    def counts(self) -> Counts:
        """What was read for the passes that were taken."""
        return self._files.counts if self._files else Counts()

    def read_so_far(self) -> dict[str, float]:
        """Of files."""
        if not self._files:
            return {}
        counts, unit = self.counts, self._run.unit
        return {
            f"input_{unit}s": counts.samples,
            "input_bytes": counts.bytes,
            "input_opens": counts.opens,
            "input_reading_s": counts.reading_s,
            "input_decoding_s": counts.decoding_s,
        }

    def copy_batch_s(self) -> float | None:
        """Seconds that the passes of a step take to a GPU."""
        if not self._target.on_gpu:
            return None
        on_host = MadePasses(self._run, self._target.device).on_host
        pinned = [(samples.pin_memory(), labels.pin_memory()) for samples, labels in on_host]
        self._target.synchronize()
        start_s = time.monotonic()
        for one in pinned:
            to_device(*one, self._target.device)
        self._target.synchronize()
        return time.monotonic() - start_s
