"""Generate volumes that replace simulated ones: lognormal fields of matter, whose spectrum depends on the targets.

Source: Coles and Jones 1991 (Mon. Not. R. Astron. Soc. 248, 1), "A lognormal model for the cosmological mass
distribution". The constants make the volumes as sparse and as compressible as the simulations' counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.cosmoflow.config import PARAMETERS, REDSHIFTS

MEAN_COUNT = 0.75  # particles in a voxel


def sample(size: int, seed: tuple[int, int]) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Return particle counts of shape [size, size, size, 4], and the four targets that they were made from."""
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
    waves = np.fft.fftfreq(size) * size
    last = np.fft.rfftfreq(size) * size
    k = np.sqrt(waves[:, None, None] ** 2 + waves[None, :, None] ** 2 + last[None, None, :] ** 2)
    power = (k + 1e-9) / (1 + (k / turn) ** 2) ** ((3 - slope) / 2)
    power[0, 0, 0] = 0.0
    noise = np.fft.rfftn(chance.standard_normal((size, size, size)))
    field = np.fft.irfftn(noise * np.sqrt(power), s=(size, size, size), axes=(0, 1, 2))
    return np.asarray(field / field.std())
