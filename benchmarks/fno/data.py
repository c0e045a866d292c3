"""Made fields: smooth random ones, and the same fields one step in time later."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.fno.config import Shape

# Of a step in time of linear advection and diffusion on a periodic grid, which an operator can learn.
SHIFT = 0.3  # radians that the lowest frequency of an axis moves by
DIFFUSION = 0.01  # decay of the lowest frequency
SMOOTHNESS = 4.0  # frequency at which the amplitude of the fields has decayed to 61 %


def made_fields(shape: Shape, seed: tuple[int, int]) -> tuple[Any, Any]:
    """Return random fields of standard deviation 1 and those one step later, each of shape [fields, *grid]."""
    axes = tuple(range(1, 1 + len(shape.grid)))
    noise = np.random.default_rng(seed).standard_normal((shape.fields, *shape.grid))
    along = [np.fft.fftfreq(points, 1 / points) for points in shape.grid[:-1]]
    waves = np.meshgrid(*along, np.arange(shape.grid[-1] // 2 + 1), indexing="ij")
    squares = sum(wave**2 for wave in waves)
    smooth = np.fft.rfftn(noise, axes=axes) * np.exp(-squares / (2 * SMOOTHNESS**2))
    step = np.exp(-DIFFUSION * squares - 1j * SHIFT * sum(waves))
    before, after = (np.fft.irfftn(spectrum, shape.grid, axes) for spectrum in (smooth, smooth * step))
    return tuple((fields / before.std()).astype(np.float32) for fields in (before, after))
