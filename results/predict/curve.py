"""The time of a step of one system over its devices and its batch, as few of its points tell.

A device's time for w samples is t = ((a w + c)^4 + L^4)^(1/4) N^k: what each sample takes (matrix multiplications,
attention, activations), what each step takes (optimizer, parameters), and below that the time that launching the step
takes; N devices are slower than one by what of their communication is exposed. All four are above 0. What is left of
neighbours of the same number of devices is interpolated, as their steps differ in how well kernels fit their batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

SHARPNESS = 4  # of the maximum of launching and computing
NOISE = 0.03  # of a point, as a share
PRIOR_WEIGHT = 0.1  # of what is taken for granted where points do not tell, against one point
LEFT_SPREAD, LEFT_NOISE, LEFT_WIDTH = 0.05, 0.05, 1.5  # of what is left; its width in doublings of the batch
LEFT_LARGEST = 0.25  # a point further off than this is not followed by its neighbours
FEWEST_POINTS = 2


class Measured(NamedTuple):
    """A point that was measured: work per second of all devices."""

    devices: int
    batch: int
    per_s: float

    @property
    def samples(self) -> float:
        """Samples per device in a step."""
        return self.batch / self.devices


class Curve:
    """Fitted to points of one system, software, precision and model, by SciPy's least_squares on relative errors.

    Errors count as soft_l1, so that one disturbed point does not bend it. Raises ValueError for fewer than
    FEWEST_POINTS different points.
    """

    def __init__(self, points: Sequence[Measured]) -> None:
        import numpy as np
        from scipy.optimize import least_squares

        if len({one[:2] for one in points}) < FEWEST_POINTS:
            raise ValueError(f"{len(points)} points are fewer than the {FEWEST_POINTS} that a curve needs")
        devices, samples, seconds = _columns(points)
        logs = np.log(devices), np.log(seconds)
        shortest, each = seconds.min(), (seconds / samples).min()
        # Where points do not tell: launching takes less than the shortest step, a step costs as much as 4 samples.
        prior = np.log([shortest / 2, each, 4 * each, 0.02])

        def errors(theta: np.ndarray) -> np.ndarray:
            _, sample, step, slower = np.exp(theta)
            both = np.logaddexp(SHARPNESS * theta[0], SHARPNESS * np.log(sample * samples + step)) / SHARPNESS
            found: np.ndarray = np.r_[(both + slower * logs[0] - logs[1]) / NOISE, PRIOR_WEIGHT * (theta - prior)]
            return found

        def slopes(theta: np.ndarray) -> np.ndarray:
            launch, sample, step, slower = np.exp(theta)
            work = sample * samples + step
            launching = 1 / (1 + (work / launch) ** SHARPNESS)
            of_logs = [launching, (1 - launching) * sample * samples / work, (1 - launching) * step / work]
            of_logs.append(slower * logs[0])
            found: np.ndarray = np.r_[np.stack(of_logs, axis=1) / NOISE, PRIOR_WEIGHT * np.eye(4)]
            return found

        start = np.log([shortest, each, 4 * each, 0.02])
        self._theta = least_squares(errors, start, jac=slopes, loss="soft_l1").x
        self._devices, self._doublings = devices, np.log2(samples)
        left = np.clip(np.log(seconds / self._physical_s(devices, samples)), -LEFT_LARGEST, LEFT_LARGEST)
        alike = self._alike(devices, self._doublings) + LEFT_NOISE**2 * np.eye(len(left))
        self._left = np.linalg.solve(alike, left)

    def per_s(self, devices: int, batch: int) -> float:
        """Work per second of all devices."""
        import numpy as np

        number, samples = np.array([float(devices)]), np.array([batch / devices])
        left = self._alike(number, np.log2(samples)) @ self._left
        return float(batch / (self._physical_s(number, samples) * np.exp(left))[0])

    def _physical_s(self, devices: np.ndarray, samples: np.ndarray) -> np.ndarray:
        import numpy as np

        launch, sample, step, slower = np.exp(self._theta)
        both = ((sample * samples + step) ** SHARPNESS + launch**SHARPNESS) ** (1 / SHARPNESS)
        found: np.ndarray = both * devices**slower
        return found

    def _alike(self, devices: np.ndarray, doublings: np.ndarray) -> np.ndarray:
        """How much what is left of points is that of those fitted: a Gaussian process among the same devices."""
        import numpy as np

        apart = (doublings[:, None] - self._doublings) / LEFT_WIDTH
        found: np.ndarray = LEFT_SPREAD**2 * np.exp(-(apart**2) / 2) * (devices[:, None] == self._devices)
        return found


class Input:
    """The time of reading a step's samples, and with it the throughput of steps that wait for their data.

    Reading takes r w N^q for w samples on each of N devices that share the storage, and a step the smooth maximum of
    that and of its computing. Fitted as a Curve is. Raises ValueError for fewer than FEWEST_POINTS points.
    """

    def __init__(self, computing: Curve, effective: Sequence[Measured]) -> None:
        import numpy as np
        from scipy.optimize import least_squares

        if len({one[:2] for one in effective}) < FEWEST_POINTS:
            raise ValueError(f"{len(effective)} points are fewer than the {FEWEST_POINTS} that the input path needs")
        self._computing = computing
        devices, samples, seconds = _columns(effective)
        computed = np.array([one.batch / computing.per_s(one.devices, one.batch) for one in effective])
        # Where points do not tell: reading takes half of a step, and devices hardly disturb each other.
        prior = np.log([(seconds / samples).min() / 2, 0.05])

        def errors(theta: np.ndarray) -> np.ndarray:
            reading = theta[0] + np.log(samples) + np.exp(theta[1]) * np.log(devices)
            both = np.logaddexp(SHARPNESS * np.log(computed), SHARPNESS * reading) / SHARPNESS
            found: np.ndarray = np.r_[(both - np.log(seconds)) / NOISE, PRIOR_WEIGHT * (theta - prior)]
            return found

        self._theta = least_squares(errors, prior, loss="soft_l1").x

    def per_s(self, devices: int, batch: int) -> float:
        """Effective work per second of all devices."""
        reading_s = math.exp(self._theta[0]) * batch / devices * devices ** math.exp(self._theta[1])
        computing_s = batch / self._computing.per_s(devices, batch)
        return float(batch / (reading_s**SHARPNESS + computing_s**SHARPNESS) ** (1 / SHARPNESS))


def _columns(points: Sequence[Measured]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Devices, samples of a device in a step, seconds of a step."""
    import numpy as np

    found = np.array([[one.devices, one.samples, one.batch / one.per_s] for one in points], dtype=float).T
    return found[0], found[1], found[2]
