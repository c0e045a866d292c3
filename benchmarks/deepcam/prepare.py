"""Write HDF5 files of generated fields in place of climate data, and verify each file by reading it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.options import option, run_command
from benchmarks.common.prepare import MadeOptions, write_missing
from benchmarks.deepcam.config import NATIVE_SIZE, SIZES
from jpwr.process.whole_file import replaced


@dataclass(frozen=True)
class PrepareOptions(MadeOptions):
    """Data to write."""

    example = "data/fake-deepcam"
    size: str = option(NATIVE_SIZE, "height x width of an image in pixels", tuple(SIZES))


def prepare(options: PrepareOptions) -> None:
    """Write the missing files; raises ConfigError if the folder cannot be used."""
    folder = Path(options.out)
    paths = [folder / "stats.h5", *(folder / f"data-made-{index:06d}.h5" for index in range(options.samples))]

    def tasks(missing: list[int]) -> list[Callable[[], int]]:
        seeds = {index: (options.seed, index - 1) for index in missing}
        height, width = SIZES[options.size]
        return [
            partial(write_sample, paths[index], height, width, seeds[index])
            if index
            else partial(write_stats, paths[index])
            for index in missing
        ]

    written = write_missing(folder / "made.json", options.plan, "*.h5", paths, tasks, options.jobs)
    if written:
        print(f"{folder}: {len(written)} files with {sum(written) / 1e6:.1f} MB")


def write_sample(path: Path, height: int, width: int, seed: tuple[int, int]) -> int:
    """Write one sample in the form of the data set; return the bytes of the file."""
    from benchmarks.deepcam.fields import sample

    fields, labels = sample(height, width, seed)
    return _write(path, {"climate/data": fields, "climate/labels_0": labels})


def write_stats(path: Path) -> int:
    """Write the minima and maxima of the channels; return the bytes of the file."""
    from benchmarks.deepcam.fields import ranges

    least, most = ranges()
    return _write(path, {"climate/minval": least, "climate/maxval": most})


def _write(path: Path, parts: dict[str, Any]) -> int:
    import h5py
    import numpy as np

    with replaced(path) as part:
        with h5py.File(part, "w") as file:
            for name, values in parts.items():
                file[name] = values
        with h5py.File(part, "r") as file:
            if not all(np.array_equal(file[name][...], values) for name, values in parts.items()):
                raise OSError(f"{part} differs from what was written: check the disk")
    return path.stat().st_size


main = partial(run_command, PrepareOptions, "python -m benchmarks.deepcam.prepare", __doc__, prepare)

if __name__ == "__main__":
    sys.exit(main())
