"""What DeepCAM is trained on: made fields, or HDF5 files of one sample each, which processes of their own read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.launch import Launch, usable_cores
from benchmarks.common.options import ConfigError
from benchmarks.deepcam.config import CHANNELS, CLASSES, SIZES, Config
from benchmarks.on_pytorch.trainer import Pass

DATA, LABELS = "climate/data", "climate/labels_0"  # of shape [height, width, 16] and [height, width]
LEAST, MOST = "climate/minval", "climate/maxval"  # in stats.h5, of shape [16]


class DataError(Exception):
    """The data cannot be trained on: one sentence with what was found."""


class Scale(NamedTuple):
    """Of each channel: what is taken off, and what the rest is multiplied by."""

    shift: Any
    factor: Any


def read_scale(path: Path) -> Scale:
    """From stats.h5; raises ConfigError where it cannot be used."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            least, most = (np.asarray(file[name], np.float32) for name in (LEAST, MOST))
    except (OSError, KeyError) as error:
        raise ConfigError(f"{path} has no least and largest values of the channels ({error}): copy it again") from error
    if least.shape != (CHANNELS,) or most.shape != (CHANNELS,) or not np.all(most > least):
        raise ConfigError(f"{path} has no range above 0 for each of {CHANNELS} channels: copy it again")
    return Scale(least, 1 / (most - least))


class Counts(NamedTuple):
    """What was read from files."""

    samples: float = 0
    bytes: float = 0
    opens: float = 0
    damaged: float = 0
    reading_s: float = 0  # with HDF5's own unpacking, where files are packed
    decoding_s: float = 0


class Fields(IterableDataset[tuple[torch.Tensor, torch.Tensor, Counts]]):
    """Passes of this process's files, in another order each time, without an end; damaged files are left out."""

    def __init__(self, files: Sequence[Path], shape: tuple[int, int], samples: int, seed: int, scale: Scale) -> None:
        self._files, self._shape, self._samples, self._seed, self._scale = files, shape, samples, seed, scale

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, Counts]]:
        """Fields of shape [samples, height, width, 16], labels of shape [samples, height, width] from 0."""
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        own, chance = self._files[number::workers], np.random.default_rng((self._seed, number))
        made, counts = 0, np.zeros(len(Counts._fields))
        while True:
            good = 0
            for index in chance.permutation(len(own)):
                if not made:
                    fields = np.empty((self._samples, *self._shape, CHANNELS), np.float32)
                    labels = np.empty((self._samples, *self._shape), np.uint8)
                found = self._read(own[index], fields[made], labels[made])
                counts += found
                good += not found.damaged
                made = (made + (not found.damaged)) % self._samples
                if not (made or found.damaged):
                    yield torch.from_numpy(fields), torch.from_numpy(labels), Counts(*counts.tolist())
                    counts[:] = 0
            if not good:
                raise DataError(f"no file of the data can be used: {len(own)} were tried, {own[0]} among them")

    def _read(self, path: Path, fields: Any, labels: Any) -> Counts:
        import h5py

        begun_s = time.perf_counter()
        try:
            with h5py.File(path, "r") as file:
                stored, classes = file[DATA], file[LABELS]
                stored.read_direct(fields)
                found = classes[...]
                size_bytes = stored.id.get_storage_size() + classes.id.get_storage_size()
        except (OSError, KeyError, TypeError, ValueError, RuntimeError):
            return Counts(opens=1, damaged=1, reading_s=time.perf_counter() - begun_s)
        read_s = time.perf_counter()
        if found.shape != labels.shape or found.min() < 0 or found.max() >= CLASSES:
            return Counts(opens=1, bytes=size_bytes, damaged=1, reading_s=read_s - begun_s)
        labels[...] = found
        fields -= self._scale.shift
        fields *= self._scale.factor
        return Counts(1, size_bytes, 1, 0, read_s - begun_s, time.perf_counter() - read_s)


class FilePasses:
    """Passes from files, on the device, and what was read for them."""

    def __init__(
        self, config: Config, files: Sequence[Path], scale: Scale, samples: int, launch: Launch, device: torch.device
    ) -> None:
        data = config.data
        workers = max(1, min(data.parallel_files, len(files), usable_cores() // launch.local_world_size))
        each = -(-data.prefetch_batches // workers)
        fields = Fields(files, SIZES[config.model.size], samples, config.training.seed + launch.rank, scale)
        self.passes_ahead = workers * each
        self._loader = DataLoader(
            fields,
            batch_size=None,
            num_workers=workers,
            prefetch_factor=each,
            pin_memory=device.type == "cuda",
        )
        self._device = device
        self.counts = Counts()

    def __iter__(self) -> Iterator[Pass]:
        for fields, labels, counts in self._loader:
            self.counts = Counts(*(a + b for a, b in zip(self.counts, counts, strict=True)))
            yield to_device(fields, labels, self._device)


def to_device(fields: torch.Tensor, labels: torch.Tensor, device: torch.device) -> Pass:
    """Fields of shape [samples, 16, height, width] with the channels last in memory, labels as indices."""
    fields, labels = (part.to(device, non_blocking=True) for part in (fields, labels))
    return fields.permute(0, 3, 1, 2), labels.long()


def made_passes(config: Config, plan: BatchPlan, rank: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Random fields with random labels: of a global batch that is the same for every layout, this rank's passes."""
    shape = SIZES[config.model.size]
    for index in range(plan.grad_accum_steps):
        made = []
        for number in plan.sample_indices(0, index, rank):
            chance = np.random.default_rng((config.training.seed, number))
            made.append((chance.random((*shape, CHANNELS), np.float32), chance.integers(0, CLASSES, shape, np.uint8)))
        fields, labels = (torch.from_numpy(np.stack(parts)) for parts in zip(*made, strict=True))
        yield fields, labels
