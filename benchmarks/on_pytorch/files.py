"""Batches of a rank's forward passes: made ones, or samples that worker processes read, each from a file."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from benchmarks.common.options import DataOptions
from benchmarks.common.samples import DataError
from benchmarks.common.workload import Feed
from benchmarks.on_pytorch.target import Target
from benchmarks.on_pytorch.trainer import Pass, Trainer
from jpwr.regions import RegionTimer


class Damaged(Exception):
    """A file cannot be used."""


class Counts(NamedTuple):
    """Amounts read from files, and the seconds that reading and decoding took."""

    samples: float = 0
    bytes: float = 0
    opens: float = 0
    damaged: float = 0
    reading_s: float = 0
    decoding_s: float = 0


class Read(NamedTuple):
    """Reader of files; all parts can be sent to another process."""

    sample: tuple[tuple[int, ...], Any]  # shape and type of numpy
    labels: tuple[tuple[int, ...], Any]
    read: Callable[[Path, Any, Any], int]  # fills a sample and its labels, returns bytes; raises OSError or Damaged
    decode: Callable[[Any], None]  # the sample that was read last, in place; raises Damaged


class Samples(IterableDataset[tuple[torch.Tensor, torch.Tensor, Counts]]):
    """Endless passes from this process's files, shuffled in each round; damaged files are left out."""

    def __init__(self, files: Sequence[Path], read: Read, in_pass: int, seed: int) -> None:
        self.files, self._read, self._in_pass, self._seed = files, read, in_pass, seed

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, Counts]]:
        """Yield the samples and labels of a pass, and the amounts read since the pass before."""
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        own, chance = self.files[number::workers], np.random.default_rng((self._seed, number))
        made, counts = 0, np.zeros(len(Counts._fields))
        while True:
            good = 0
            for index in chance.permutation(len(own)):
                if not made:
                    samples, labels = (
                        np.empty((self._in_pass, *shape), kind)
                        for shape, kind in (self._read.sample, self._read.labels)
                    )
                found = self._read_one(own[index], samples[made], labels[made, ...])
                counts += found
                if found.damaged:
                    continue
                good, made = good + 1, (made + 1) % self._in_pass
                if not made:
                    yield torch.from_numpy(samples), torch.from_numpy(labels), Counts(*counts.tolist())
                    counts[:] = 0
            if not good:
                raise DataError(f"no file of the data can be used: {len(own)} were tried, such as {own[0]}")

    def _read_one(self, path: Path, sample: Any, labels: Any) -> Counts:
        begun_s = time.perf_counter()
        try:
            size_bytes = self._read.read(path, sample, labels)
            read_s = time.perf_counter()
            self._read.decode(sample)
        except (OSError, Damaged):
            return Counts(opens=1, damaged=1, reading_s=time.perf_counter() - begun_s)
        return Counts(1, size_bytes, 1, 0, read_s - begun_s, time.perf_counter() - read_s)


class FilePasses:
    """Passes from files, on the device, and the amounts read for them."""

    def __init__(self, samples: Samples, options: DataOptions, cores: int, device: torch.device) -> None:
        workers = max(1, min(options.parallel_files, len(samples.files), cores))
        each = -(-options.prefetch_batches // workers)
        self.passes_ahead = workers * each
        pinned = device.type == "cuda"
        self._loader = DataLoader(
            samples, batch_size=None, num_workers=workers, prefetch_factor=each, pin_memory=pinned
        )
        self._device = device
        self.counts = Counts()

    def __iter__(self) -> Iterator[Pass]:
        for samples, labels, counts in self._loader:
            self.counts = Counts(*(a + b for a, b in zip(self.counts, counts, strict=True)))
            yield to_device(samples, labels, self._device)

    def read_so_far(self, unit: str) -> dict[str, float]:
        """Return the amounts read for the passes taken so far, by the keys of metrics."""
        counts = self.counts
        return {
            f"input_{unit}s": counts.samples,
            "input_bytes": counts.bytes,
            "input_opens": counts.opens,
            "input_reading_s": counts.reading_s,
            "input_decoding_s": counts.decoding_s,
        }


class MadePasses:
    """Passes of made pairs of a sample and its labels."""

    def __init__(self, passes: Iterable[Sequence[tuple[Any, Any]]], target: Target) -> None:
        self._target, self._on_host = target, []
        for made in passes:
            samples, labels = (torch.from_numpy(np.stack(parts)) for parts in zip(*made, strict=True))
            self._on_host.append((samples, labels))

    def on_device(self) -> Iterator[Pass]:
        """Return the passes endlessly, from the device."""
        return itertools.cycle([to_device(*one, self._target.device) for one in self._on_host])

    def from_host(self) -> Iterator[Pass]:
        """Return the passes endlessly, copied to the device each time."""
        return (to_device(*one, self._target.device) for one in itertools.cycle(self._on_host))

    def copy_s(self) -> float | None:
        """Return the seconds to copy all passes to a GPU; None without a GPU."""
        if not self._target.on_gpu:
            return None
        pinned = [(samples.pin_memory(), labels.pin_memory()) for samples, labels in self._on_host]
        self._target.synchronize()
        start_s = time.monotonic()
        for one in pinned:
            to_device(*one, self._target.device)
        self._target.synchronize()
        return time.monotonic() - start_s


def to_device(samples: torch.Tensor, labels: torch.Tensor, device: torch.device) -> Pass:
    """Return samples with channels second in shape, in the device's order in memory, and labels as indices.

    Labels that are fields stay as they are, with their samples.
    """
    samples, labels = (part.to(device, non_blocking=True) for part in (samples, labels))
    if labels.is_floating_point():
        return samples, labels
    return samples.movedim(-1, 1).contiguous(memory_format=memory_format(device)), labels.long()


def memory_format(device: torch.device) -> torch.memory_format:
    """Return the order of channels in memory: as stored, last, on GPUs.

    On CPUs a backward pass of transposed and of dilated convolutions takes up to three times as long with that order.
    """
    return torch.contiguous_format if device.type == "cpu" else torch.channels_last


def feed(trainer: Trainer, regions: RegionTimer, unit: str, made: MadePasses, passes: Iterable[Pass]) -> Feed:
    """Return steps on successive passes, which times the copy of the made passes."""
    marked, each = regions.io(passes), trainer.passes
    found = Feed(
        lambda: trainer.step(itertools.islice(marked, each)),
        lambda: list(itertools.islice(marked, each)),
        trainer.step,
        copy_batch_s=made.copy_s,
    )
    if not isinstance(passes, FilePasses):
        return found
    return replace(found, steps_ahead=-(-passes.passes_ahead // each), read_so_far=partial(passes.read_so_far, unit))
