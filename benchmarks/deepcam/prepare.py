"""Write HDF5 files of generated fields in place of climate data, and verify each file by reading it.

The fields are smooth, with labels where two of them are highest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from benchmarks.common.options import option, run_command
from benchmarks.common.prepare import MadeOptions, write_missing
from benchmarks.deepcam.config import CHANNELS, FREQUENCIES, NATIVE_SIZE, SIZES
from jpwr.process.whole_file import replaced

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SMOOTH = 12  # waves along an edge, beyond which a field has little power
LIMIT = 6.0  # largest value, in standard deviations
# A standard normal variable is above these as often as a class occurs in the training set.
CYCLONE, RIVER = (NormalDist().inv_cdf(1 - frequency) for frequency in FREQUENCIES[1:])


@dataclass(frozen=True)
class PrepareOptions(MadeOptions):
    """Data to write."""

    size: str = option(NATIVE_SIZE, "height x width of an image in pixels", tuple(SIZES))


def prepare(options: PrepareOptions) -> None:
    """Write the missing files; raises ConfigError if the folder cannot be used."""
    folder = Path(options.out)
    paths = [folder / "stats.h5", *(folder / f"data-made-{index:06d}.h5" for index in range(options.samples))]

    def task(index: int) -> Callable[[], None]:
        if not index:
            return partial(write_stats, paths[0])
        return partial(write_sample, paths[index], *SIZES[options.size], (options.seed, index - 1))

    write_missing(folder / "made.json", options.plan, "*.h5", paths, task, options.jobs)


def write_sample(path: Path, height: int, width: int, seed: tuple[int, int]) -> None:
    """Write one sample in the form of the data set."""
    fields, labels = sample(height, width, seed)
    _write(path, {"climate/data": fields, "climate/labels_0": labels})


def write_stats(path: Path) -> None:
    """Write the minima and maxima of the channels."""
    least, most = ranges()
    _write(path, {"climate/minval": least, "climate/maxval": most})


def _write(path: Path, parts: dict[str, Any]) -> None:
    import h5py
    import numpy as np

    with replaced(path) as part:
        with h5py.File(part, "w") as file:
            for name, values in parts.items():
                file[name] = values
        with h5py.File(part, "r") as file:
            if not all(np.array_equal(file[name][...], values) for name, values in parts.items()):
                raise OSError(f"{part} differs from what was written: check the disk")


def ranges() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the minimum and maximum of each channel, as different as those of wind, pressure and moisture."""
    import numpy as np

    middle, deviation = scales()
    return (middle - LIMIT * deviation).astype(np.float32), (middle + LIMIT * deviation).astype(np.float32)


def scales() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the standard deviation of each channel."""
    import numpy as np

    chance = np.random.default_rng(0)
    return chance.uniform(-100, 100, CHANNELS), 10 ** chance.uniform(-4, 4, CHANNELS)


def sample(height: int, width: int, seed: tuple[int, int]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return fields of shape [height, width, 16], and each pixel's class: 1 where the first is high, 2 the second."""
    import numpy as np

    chance = np.random.default_rng(seed)
    waves = np.sqrt((np.fft.fftfreq(height) * height)[:, None] ** 2 + (np.fft.rfftfreq(width) * width)[None, :] ** 2)
    share = np.exp(-((waves / SMOOTH) ** 2))
    share[0, 0] = 0.0
    middle, deviation = scales()
    fields = np.empty((height, width, CHANNELS), np.float32)
    labels = np.zeros((height, width), np.uint8)
    standard = []
    for channel in range(CHANNELS):
        noise = np.fft.rfft2(chance.standard_normal((height, width)))
        field = np.fft.irfft2(noise * share, s=(height, width), axes=(0, 1))
        standard.append(np.clip(field / field.std(), -LIMIT, LIMIT))
        fields[..., channel] = middle[channel] + deviation[channel] * standard[channel]
    labels[standard[1] > RIVER] = 2
    labels[standard[0] > CYCLONE] = 1
    return fields, labels


main = partial(run_command, PrepareOptions, "python -m benchmarks.deepcam.prepare", __doc__, prepare)

if __name__ == "__main__":
    sys.exit(main())
