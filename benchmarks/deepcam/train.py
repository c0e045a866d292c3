"""Workload DeepCAM."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import session
from benchmarks.common.input_files import find_files
from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.deepcam.config import CHANNELS, CLASSES, SIZES, Config
from benchmarks.on_pytorch.workload import PyTorchWorkload

if TYPE_CHECKING:
    from benchmarks.on_pytorch.files import Read

STATS = "stats.h5"


class DeepCam(PyTorchWorkload):
    """One run of DeepCAM."""

    name = "deepcam"
    unit = "sample"
    description = "Train DeepCAM for some steps with PyTorch and record the speed."
    packages = ("torch", "h5py", "numpy")
    options = Config
    samples_per_epoch = 121_266  # of MLPerf HPC's training set

    def __init__(self, options: Config, launch: Launch) -> None:
        self._height, self._width = SIZES[options.model.size]
        files = find_files(options.data, "*.h5", STATS)
        super().__init__(options, launch, files, f"{self._height} x {self._width} x {CHANNELS}")

    @staticmethod
    def model(options: Config) -> str:
        """Return the model with the size of its images."""
        return f"DeepCAM {options.model.size}"

    def made_sample(self, number: int) -> tuple[Any, Any]:
        """Return random fields with random classes."""
        import numpy as np

        chance = np.random.default_rng((self.config.training.seed_of_data, number))
        shape = (self._height, self._width)
        return chance.random((*shape, CHANNELS), np.float32), chance.integers(0, CLASSES, shape, np.uint8)

    def reader(self) -> Read:
        """Return the reader of HDF5 files, whose statistics are in their folder or in the one above.

        Raises ConfigError if there are no statistics.
        """
        from benchmarks.deepcam.data import reader

        folder = Path(self.config.data.data_dir)
        stats = [path for path in (folder / "train" / STATS, folder / STATS, folder.parent / STATS) if path.is_file()]
        if not stats:
            raise ConfigError(f"there is no {STATS} in {folder} or in the folder above: copy the data set's own there")
        return reader(self._height, self._width, stats[0])


main = partial(session.main, DeepCam)
