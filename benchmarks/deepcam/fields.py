"""Generate smooth fields in place of climate data, with labels where two of them are highest."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from benchmarks.deepcam.config import CHANNELS, FREQUENCIES

SMOOTH = 12  # waves along an edge, beyond which a field has little power
LIMIT = 6.0  # largest value, in standard deviations
# A standard normal variable is above these as often as a class occurs in the training set.
CYCLONE, RIVER = (NormalDist().inv_cdf(1 - frequency) for frequency in FREQUENCIES[1:])


def ranges() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the minimum and maximum of each channel, as different as those of wind, pressure and moisture."""
    middle, deviation = scales()
    return (middle - LIMIT * deviation).astype(np.float32), (middle + LIMIT * deviation).astype(np.float32)


def scales() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the standard deviation of each channel."""
    chance = np.random.default_rng(0)
    return chance.uniform(-100, 100, CHANNELS), 10 ** chance.uniform(-4, 4, CHANNELS)


def sample(height: int, width: int, seed: tuple[int, int]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return fields of shape [height, width, 16], and each pixel's class: 1 where the first is high, 2 the second."""
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
