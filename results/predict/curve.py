"""Time of a step of one system as a function of its devices and its batch, fitted to few points.

A device's time for w samples is t = ((a w + c)^4 + L^4)^(1/4) N^k, with a time per sample a (matrix multiplications,
attention, activations), a time per step c (optimizer, parameters), a lower limit L by the launch of the step, and an
exponent k for the exposed communication of N devices. All four are above 0. Residuals of points with the same number of
devices are interpolated, as kernels fit some batches better than others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

SHARPNESS = 4  # exponent of the smooth maximum of launching and computing
NOISE = 0.03  # of a point, relative
PRIOR_WEIGHT = 0.1  # of the prior against one point
RESIDUAL_SPREAD, RESIDUAL_NOISE, RESIDUAL_WIDTH = 0.05, 0.05, 1.5  # relative; the width in doublings of the batch
LARGEST_RESIDUAL = 0.25  # limit of the residual that neighbours follow
FEWEST_POINTS = 2


class Measured(NamedTuple):
    """A measured point; throughput in samples per second of all devices."""

    devices: int
    batch: int
    per_s: float

    @property
    def samples(self) -> float:
        """Samples per device in a step."""
        return self.batch / self.devices


class Curve:
    """Curve through points of one system, software, precision and model, by SciPy's least_squares on relative errors.

    The loss is soft_l1, so that one outlier does not bend the curve. Raises ValueError for fewer than FEWEST_POINTS
    different points. The fit starts at `near`, a curve through almost the same points; that only saves time.
    """

    def __init__(self, points: Sequence[Measured], near: Curve | None = None) -> None:
        import numpy as np
        from scipy.optimize import least_squares

        if len({one[:2] for one in points}) < FEWEST_POINTS:
            raise ValueError(f"{len(points)} points are fewer than the {FEWEST_POINTS} that a curve needs")
        devices, samples, seconds = _columns(points)
        logs = np.log(devices), np.log(seconds)
        shortest, each = seconds.min(), (seconds / samples).min()
        # Prior: launching takes half of the shortest step, and a step costs as much as 4 samples.
        prior = np.log([shortest / 2, each, 4 * each, 0.02])

        def errors(theta: np.ndarray) -> np.ndarray:
            _, sample, step, slower = np.exp(theta)
            both = np.logaddexp(SHARPNESS * theta[0], SHARPNESS * np.log(sample * samples + step)) / SHARPNESS
            result: np.ndarray = np.r_[(both + slower * logs[0] - logs[1]) / NOISE, PRIOR_WEIGHT * (theta - prior)]
            return result

        def slopes(theta: np.ndarray) -> np.ndarray:
            launch, sample, step, slower = np.exp(theta)
            work = sample * samples + step
            launching = 1 / (1 + (work / launch) ** SHARPNESS)
            derivatives = [launching, (1 - launching) * sample * samples / work, (1 - launching) * step / work]
            derivatives.append(slower * logs[0])
            result: np.ndarray = np.r_[np.stack(derivatives, axis=1) / NOISE, PRIOR_WEIGHT * np.eye(4)]
            return result

        start = near._theta if near else np.log([shortest, each, 4 * each, 0.02])
        self._theta: np.ndarray = least_squares(errors, start, jac=slopes, loss="soft_l1").x
        self._devices, self._doublings = devices, np.log2(samples)
        residuals = np.clip(np.log(seconds / self._physical_s(devices, samples)), -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
        covariance = self._covariance(devices, self._doublings) + RESIDUAL_NOISE**2 * np.eye(len(residuals))
        self._weights = np.linalg.solve(covariance, residuals)

    def per_s(self, devices: int, batch: int) -> float:
        """Return the work per second of all devices."""
        import numpy as np

        number, samples = np.array([float(devices)]), np.array([batch / devices])
        residual = self._covariance(number, np.log2(samples)) @ self._weights
        return float(batch / (self._physical_s(number, samples) * np.exp(residual))[0])

    def _physical_s(self, devices: np.ndarray, samples: np.ndarray) -> np.ndarray:
        import numpy as np

        launch, sample, step, slower = np.exp(self._theta)
        both = ((sample * samples + step) ** SHARPNESS + launch**SHARPNESS) ** (1 / SHARPNESS)
        result: np.ndarray = both * devices**slower
        return result

    def _covariance(self, devices: np.ndarray, doublings: np.ndarray) -> np.ndarray:
        """Return the covariance of residuals with those of fitted points: a Gaussian process per number of devices."""
        import numpy as np

        distance = (doublings[:, None] - self._doublings) / RESIDUAL_WIDTH
        result: np.ndarray = RESIDUAL_SPREAD**2 * np.exp(-(distance**2) / 2) * (devices[:, None] == self._devices)
        return result


class Input:
    """Time of reading a step's samples, and the throughput of steps that wait for their input.

    Reading takes r w N^q for w samples on each of N devices that share the storage. A step takes the smooth maximum of
    reading and computing. Fitted like a Curve. Raises ValueError for fewer than FEWEST_POINTS different points.
    """

    def __init__(self, computing: Curve, effective: Sequence[Measured]) -> None:
        import numpy as np
        from scipy.optimize import least_squares

        if len({one[:2] for one in effective}) < FEWEST_POINTS:
            raise ValueError(f"{len(effective)} points are fewer than the {FEWEST_POINTS} that the input path needs")
        self._computing = computing
        devices, samples, seconds = _columns(effective)
        computed = np.array([one.batch / computing.per_s(one.devices, one.batch) for one in effective])
        # Prior: reading takes half of a step, and devices hardly slow each other down.
        prior = np.log([(seconds / samples).min() / 2, 0.05])

        def errors(theta: np.ndarray) -> np.ndarray:
            reading = theta[0] + np.log(samples) + np.exp(theta[1]) * np.log(devices)
            both = np.logaddexp(SHARPNESS * np.log(computed), SHARPNESS * reading) / SHARPNESS
            result: np.ndarray = np.r_[(both - np.log(seconds)) / NOISE, PRIOR_WEIGHT * (theta - prior)]
            return result

        self._theta = least_squares(errors, prior, loss="soft_l1").x

    def per_s(self, devices: int, batch: int) -> float:
        """Return the effective work per second of all devices."""
        reading_s = math.exp(self._theta[0]) * batch / devices * devices ** math.exp(self._theta[1])
        computing_s = batch / self._computing.per_s(devices, batch)
        return float(batch / (reading_s**SHARPNESS + computing_s**SHARPNESS) ** (1 / SHARPNESS))


def _columns(points: Sequence[Measured]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return devices, samples per device and step, and seconds per step."""
    import numpy as np

    result = np.array([[one.devices, one.samples, one.batch / one.per_s] for one in points], dtype=float).T
    return result[0], result[1], result[2]
