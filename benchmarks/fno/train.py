"""Workload FNO."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.common import session
from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.common.samples import divergence
from benchmarks.common.workload import Target
from benchmarks.fno.config import SIZES, Config, Shape
from benchmarks.on_pytorch.workload import PyTorchWorkload

# Of a step in time of linear advection and diffusion on a periodic grid, which an operator can learn.
SHIFT = 0.3  # radians that the lowest frequency of an axis moves by
DIFFUSION = 0.01  # decay of the lowest frequency
SMOOTHNESS = 4.0  # frequency at which the amplitude of the fields has decayed to 61 %


class Fno(PyTorchWorkload):
    """One run of FNO; a sample is the fields at one time, and at the next as its labels."""

    name = "fno"
    unit = "timestep"
    description = "Train or evaluate a Fourier neural operator with PyTorch and record the speed."
    packages = ("torch", "neuraloperator", "numpy")
    options = Config

    def __init__(self, options: Config, launch: Launch) -> None:
        self._shape = SIZES[options.model.size]
        super().__init__(options, launch, (), self._shape.sample)

    @staticmethod
    def model(options: Config) -> str:
        """Return the model with the size of its fields; an evaluation is another one, so that it never ranks here."""
        return f"FNO {'evaluation ' if options.model.evaluation else ''}{options.model.size}"

    def made_sample(self, number: int) -> tuple[Any, Any]:
        """Return random fields, and those one step in time later."""
        return made_fields(self._shape, (self.config.training.seed_of_data, number))

    def conclude(self, record: RunRecord, target: Target, losses: Sequence[float], read: int, damaged: int) -> str:
        """Return why the run is not valid, or an empty string; there are no files."""
        record.metrics["comparable"] = self.config.model.size != "tiny"
        return divergence(losses)


def made_fields(shape: Shape, seed: tuple[int, int]) -> tuple[Any, Any]:
    """Return random fields of standard deviation 1 and those one step later, each of shape [fields, *grid]."""
    import numpy as np

    axes = tuple(range(1, 1 + len(shape.grid)))
    noise = np.random.default_rng(seed).standard_normal((shape.fields, *shape.grid))
    along = [np.fft.fftfreq(points, 1 / points) for points in shape.grid[:-1]]
    waves = np.meshgrid(*along, np.arange(shape.grid[-1] // 2 + 1), indexing="ij")
    squares = sum(wave**2 for wave in waves)
    smooth = np.fft.rfftn(noise, axes=axes) * np.exp(-squares / (2 * SMOOTHNESS**2))
    step = np.exp(-DIFFUSION * squares - 1j * SHIFT * sum(waves))
    before, after = (np.fft.irfftn(spectrum, shape.grid, axes) for spectrum in (smooth, smooth * step))
    return tuple((fields / before.std()).astype(np.float32) for fields in (before, after))


main = partial(session.main, Fno)
