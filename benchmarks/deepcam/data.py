"""DeepCAM's files: HDF5 of one sample each, and stats.h5 with the range of each channel."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchmarks.common.options import ConfigError
from benchmarks.deepcam.config import CHANNELS, CLASSES
from benchmarks.on_pytorch.files import Damaged, Read

DATA, LABELS = "climate/data", "climate/labels_0"  # of shape [height, width, 16] and [height, width]
LEAST, MOST = "climate/minval", "climate/maxval"  # in stats.h5, of shape [16]


def reader(height: int, width: int, stats: Path) -> Read:
    """Return the reader of images of one size, in the range of stats.h5; raises ConfigError if that cannot be used."""
    try:
        with h5py.File(stats, "r") as file:
            least, most = (np.asarray(file[name], np.float32) for name in (LEAST, MOST))
    except (OSError, KeyError) as error:
        raise ConfigError(f"{stats} has no minima and maxima of the channels ({error}): copy it again") from error
    if least.shape != (CHANNELS,) or most.shape != (CHANNELS,) or not np.all(most > least):
        raise ConfigError(f"{stats} has no range above 0 for each of {CHANNELS} channels: copy it again")
    sample, labels = ((height, width, CHANNELS), np.float32), ((height, width), np.uint8)
    return Read(sample, labels, read_file, partial(to_range, least=least, factor=1 / (most - least)))


def read_file(path: Path, fields: Any, labels: Any) -> int:
    """Read one file into arrays of a sample's shape, with classes from 0, and return its stored (compressed) bytes.

    Raises Damaged if the file cannot be used.
    """
    try:
        with h5py.File(path, "r") as file:
            stored, classes = file[DATA], file[LABELS]
            stored.read_direct(fields)
            found = classes[...]
            size_bytes = stored.id.get_storage_size() + classes.id.get_storage_size()
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise Damaged(str(error)) from error
    if found.shape != labels.shape or not (found.min() >= 0 and found.max() < CLASSES):
        raise Damaged("labels of another shape, or with an unknown class")
    labels[...] = found
    return int(size_bytes)


def to_range(fields: Any, least: Any, factor: Any) -> None:
    """Scale each channel in place to 0...1, by its statistics."""
    fields -= least
    fields *= factor
