"""Write TFRecords of generated volumes in place of simulated ones, and verify each file by reading it.

The volumes are lognormal fields of matter, whose spectrum depends on the targets: Coles and Jones 1991 (Mon. Not. R.
Astron. Soc. 248, 1), "A lognormal model for the cosmological mass distribution". The constants make them as sparse and
as compressible as the simulations' counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.options import option, run_command
from benchmarks.common.prepare import MadeOptions, write_missing
from benchmarks.cosmoflow.config import NATIVE_SIZE, PARAMETERS, REDSHIFTS, SIZES
from jpwr.process.whole_file import replaced

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEAN_COUNT = 0.75  # particles in a voxel


@dataclass(frozen=True)
class PrepareOptions(MadeOptions):
    """Data to write."""

    size: int = option(NATIVE_SIZE, "voxels along a volume's edge", SIZES)


def prepare(options: PrepareOptions) -> None:
    """Write the missing files; raises ConfigError if the folder cannot be used."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    folder = Path(options.out)
    paths = [folder / f"made_{index:06d}.tfrecord" for index in range(options.samples)]

    def task(index: int) -> Callable[[], None]:
        return partial(write_file, paths[index], options.size, (options.seed, index))

    write_missing(folder / "made.json", options.plan, "*.tfrecord", paths, task, options.jobs)


def write_file(path: Path, size: int, seed: tuple[int, int]) -> None:
    """Write one volume, and verify it by reading it; raises OSError if that fails."""
    import tensorflow as tf

    counts, targets = sample(size, seed)
    serialised = tf.train.Example(
        features=tf.train.Features(
            feature={
                "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[counts.tobytes()])),
                "y": tf.train.Feature(float_list=tf.train.FloatList(value=targets)),
            }
        )
    ).SerializeToString(deterministic=True)
    with replaced(path) as part:
        try:
            with tf.io.TFRecordWriter(str(part), "GZIP") as writer:
                writer.write(serialised)
            [found] = tf.data.TFRecordDataset(str(part), "GZIP").as_numpy_iterator()
        except tf.errors.OpError as error:
            raise OSError(error.message) from error
        if found != serialised:
            raise OSError(f"{part} differs from what was written: check the disk")


def sample(size: int, seed: tuple[int, int]) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Return particle counts of shape [size, size, size, 4], and the four targets that they were made from."""
    import numpy as np

    chance = np.random.default_rng(seed)
    targets = chance.uniform(-1, 1, PARAMETERS).astype(np.float32)
    matter, amplitude, slope, expansion = (float(value) for value in targets)
    field = _gaussian(size, chance, -1.5 + 0.5 * slope, 4.0 * (1 + 0.4 * matter))
    # Structures grow with time.
    growth = np.linspace(0.5 + 0.2 * expansion, 1.0, REDSHIFTS) * (1.2 + 0.5 * amplitude)
    counts = np.empty((size, size, size, REDSHIFTS), np.int16)
    for time, sigma in enumerate(growth):
        mean = MEAN_COUNT * np.exp(sigma * field - sigma**2 / 2)
        counts[..., time] = np.minimum(chance.poisson(mean), np.iinfo(np.int16).max)
    return counts, targets


def _gaussian(size: int, chance: np.random.Generator, slope: float, turn: float) -> NDArray[np.float64]:
    """Return a field of mean 0 and deviation 1, whose power falls by `slope` beyond `turn` waves along an edge."""
    import numpy as np

    waves = np.fft.fftfreq(size) * size
    last = np.fft.rfftfreq(size) * size
    k = np.sqrt(waves[:, None, None] ** 2 + waves[None, :, None] ** 2 + last[None, None, :] ** 2)
    power = (k + 1e-9) / (1 + (k / turn) ** 2) ** ((3 - slope) / 2)
    power[0, 0, 0] = 0.0
    noise = np.fft.rfftn(chance.standard_normal((size, size, size)))
    field = np.fft.irfftn(noise * np.sqrt(power), s=(size, size, size), axes=(0, 1, 2))
    return np.asarray(field / field.std())


main = partial(run_command, PrepareOptions, "python -m benchmarks.cosmoflow.prepare", __doc__, prepare)

if __name__ == "__main__":
    sys.exit(main())
