"""Experimental: the time of a step from a device's datasheet, with factors fitted to measured points of others.

A step is a sum of terms with non-negative factors: matrix multiplications at peak; attention and activations at the
memory's bandwidth (attention is limited by tiles and exponentials, which have grown with it and not with the peak);
bytes of the optimizer; exchanged bytes at the link's bandwidth; and the start of each layer, which depends on the
software. A pipeline adds its bubble. The factors are from SciPy's nnls on relative errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from results.predict.step_work import Work

if TYPE_CHECKING:
    import numpy as np

# nnls needs columns of similar size: attention has many FLOPs for each byte, and starting a layer takes milliseconds.
SCALES, START_SCALE = (1.0, 1e-2, 1e2, 1.0, 1.0, 1.0), 1e-3


class Hardware(NamedTuple):
    """Datasheet of one device; bandwidths to other devices are for one direction. 0: unknown."""

    name: str
    peak_flops: float  # FLOP/s in the precision of the prediction
    memory_b_per_s: float
    link_b_per_s: float  # within a node
    network_b_per_s: float  # between nodes
    devices_per_node: int
    tdp_w: float = 0.0
    precision: str = "16bit"


class Example(NamedTuple):
    """A measured point: its software, device, work, and time of a step."""

    source: str
    hardware: Hardware
    devices: int
    work: Work
    step_s: float

    @property
    def software(self) -> tuple[str, str]:
        """Source and precision of the point; each precision has its own kernels."""
        return self.source, self.hardware.precision


class Datasheet:
    """Factors of all terms, and for each source and precision the time of its software to start a layer.

    Raises ValueError without examples.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        import numpy as np
        from scipy.optimize import nnls

        if not examples:
            raise ValueError("a datasheet model needs measured points, got none")
        # Each software has the same weight, whatever its number of points.
        counts = Counter(one.software for one in examples)
        self._software = list(counts)
        rows = [self._row(one.work, one.hardware, one.devices, one.source) / one.step_s for one in examples]
        weights = np.array([counts[one.software] ** -0.5 for one in examples])
        self._factors = nnls(np.array(rows) * weights[:, None], weights)[0]

    def step_s(self, work: Work, hardware: Hardware, devices: int, source: str) -> float:
        """Return the predicted time of one step, in seconds; unknown software is taken as the mean of known ones."""
        return float(self._row(work, hardware, devices, source) @ self._factors)

    def _row(self, work: Work, hardware: Hardware, devices: int, source: str) -> np.ndarray:
        """Return the seconds of each term at the datasheet's figures, and the layers started by each software."""
        import numpy as np

        within = devices <= hardware.devices_per_node or not hardware.network_b_per_s
        link = hardware.link_b_per_s if within else min(hardware.network_b_per_s, hardware.link_b_per_s)
        longer = 1 + work.bubble
        terms = [
            longer * work.matmul_flops / hardware.peak_flops,
            longer * work.attention_flops / hardware.memory_b_per_s,
            longer * work.activation_bytes / hardware.memory_b_per_s,
            work.optimizer_bytes / hardware.memory_b_per_s,
            work.exchanged_bytes / link if link else 0.0,
            longer * work.tensor_bytes / hardware.link_b_per_s if hardware.link_b_per_s else 0.0,
        ]
        # Software without a point counts as the mean of all.
        asked = (source, hardware.precision)
        share = {asked: 1.0} if asked in self._software else dict.fromkeys(self._software, 1 / len(self._software))
        started = [longer * work.layers_started * share.get(one, 0.0) for one in self._software]
        row: np.ndarray = np.array([*terms, *started]) * np.array([*SCALES, *[START_SCALE] * len(started)])
        return row
