"""Power of a node as a line of the power of its boards and processors, fitted to the blocks of runs with a sensor.

Each node has its line, by least squares. Another node of the same kind has the mean of the lines, with an interval of
the fit, of what one block differs from the line, and of the spread between nodes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from jpwr.intervals import BOUND
from results.points.estimate import Part, half_interval
from results.record.findings import Finding, finding
from results.record.model import NodePower

if TYPE_CHECKING:
    import numpy as np

# Two minutes of blocks of 10 s: fans lag behind by about one. On simulated nodes with fewer, too few intervals held.
FEWEST_BLOCKS = 12
# Boards with less than this between their lowest and highest power, as a share of the highest, show no slope: an idle
# accelerator has an eighth to a fifth of its full power.
LEAST_VARIED = 0.3
# All that the boards draw passes the node's sensor, with losses on top. Processors that idle while boards work, and
# a sensor that averages, take a part of that; one that stands still or shows another time shows less.
LEAST_SLOPE = 0.5  # of the node's power over that of its boards
BEYOND = 0.1  # share of the fitted range by which a power may be outside of it
# Standard deviation between nodes of one kind, as a share of their power, before any is measured, and the number of
# nodes that it weighs as much as. Over eight machines, nodes under one load differ by 1 to 3 % (Scogland et al., Node
# variability in large-scale power measurements, SC 2015). Without a sensor of the processors, their load adds to it: on
# simulated nodes, 4 % in all.
SPREAD, SPREAD_ALONE, SPREAD_NODES = 0.03, 0.04, 4


class Line(NamedTuple):
    """Line of one node: value, variances and degrees of freedom at one power of boards and processors."""

    node_w: float
    fit: float  # variance of the line
    block: float  # variance of one block around it
    freedom: float


class Modelled(NamedTuple):
    """Power of one node by the lines of others, in watts, with the components of its uncertainty."""

    power_w: float
    parts: tuple[Part, ...]
    nodes: int

    @property
    def half_w(self) -> float:
        """Half-width of the 95 % interval."""
        return half_interval(self.parts)


def modelled(
    runs: Sequence[NodePower], boards_w: float, processors_w: float | None, accuracy: float = 0.0, number: int = 1
) -> Modelled | Finding:
    """Return the mean power of a number of nodes of one kind at a power of a node's boards, or why there is none.

    runs: blocks with the power of the node; processors_w: None without a sensor; accuracy: bound on the error of the
    nodes' sensors, as a share of the reading. Where processors are beyond the fit, boards alone count.
    """
    with_processors = processors_w is not None and all(one.processors_w for one in runs)
    point = [boards_w, processors_w or 0.0][: 1 + with_processors]
    hosts = dict.fromkeys(one.hostname for one in runs)
    found = [_line([one for one in runs if one.hostname == host], point) for host in hosts]
    lines = [one for one in found if isinstance(one, Line)]
    if not lines and with_processors:
        return modelled(runs, boards_w, None, accuracy, number)
    if not lines:
        return next((one for one in found if isinstance(one, Finding)), finding("no_node_sensor"))
    count = len(lines)
    power_w = math.fsum(one.node_w for one in lines) / count
    # Conjugate prior of a variance: the assumed spread counts as SPREAD_NODES deviations from the mean.
    assumed = SPREAD_NODES * ((SPREAD if with_processors else SPREAD_ALONE) * power_w) ** 2
    freedom = SPREAD_NODES + count - 1
    spread = (assumed + math.fsum((one.node_w - power_w) ** 2 for one in lines)) / freedom
    fitted = math.fsum(one.fit / count**2 + one.block / count for one in lines)
    parts = (
        Part(spread * (1 / number + 1 / count), freedom),
        Part(fitted, math.fsum(one.freedom for one in lines)),
        Part((accuracy * power_w / BOUND) ** 2, math.inf),
    )
    model = Modelled(power_w, parts, count)
    return model if model.half_w < power_w else finding("model_too_wide", power_w=power_w, half_w=model.half_w)


def _line(runs: Sequence[NodePower], point: Sequence[float]) -> Line | Finding:
    """Return a node's line at a point, or why there is none."""
    import numpy as np

    columns = [[one.boards_w, one.processors_w][: len(point)] for one in runs]
    matrix = np.concatenate([np.array(one, float).T for one in columns])
    node_w = np.concatenate([np.array(one.node_w, float) for one in runs])
    if why := _why_not(matrix, point) or not_following(runs):
        return why
    full = np.column_stack([np.ones(len(matrix)), matrix])
    line, *_ = np.linalg.lstsq(full, node_w, rcond=None)
    residuals = node_w - full @ line
    # Residuals follow each other, as fans lag behind: so many are independent (Bayley and Hammersley 1946, of first
    # order).
    ends = np.cumsum([len(one.node_w) for one in runs])[:-1]
    pairs = np.delete(residuals[:-1] * residuals[1:], ends - 1)
    squares = float(residuals @ residuals)
    alike = min(max(float(pairs.sum()) / squares, 0.0), 0.9) if squares else 0.0
    independent = len(node_w) * (1 - alike) / (1 + alike)
    freedom = max(1.0, independent - len(line))
    block = squares / (len(node_w) - len(line))
    at = np.array([1.0, *point])
    leverage = float(at @ np.linalg.pinv(full.T @ full) @ at)
    return Line(float(at @ line), block * leverage * len(node_w) / independent, block, freedom)


def not_following(runs: Sequence[NodePower]) -> Finding | None:
    """Return why the sensor of a node does not show its power; None if it does, or its boards varied too little."""
    boards_w = [power_w for one in runs for power_w in one.boards_w]
    node_w = [power_w for one in runs for power_w in one.node_w]
    if len(node_w) < FEWEST_BLOCKS or max(boards_w) - min(boards_w) < LEAST_VARIED * max(boards_w):
        return None
    slope = statistics.linear_regression(boards_w, node_w).slope
    return finding("node_not_following", hostname=runs[0].hostname, slope=slope) if slope < LEAST_SLOPE else None


def _why_not(matrix: np.ndarray, point: Sequence[float]) -> Finding | None:
    if len(matrix) < FEWEST_BLOCKS:
        return finding("few_blocks", blocks=len(matrix), wanted=FEWEST_BLOCKS)
    lows_w, highs_w = matrix.min(axis=0), matrix.max(axis=0)
    if highs_w[0] - lows_w[0] < LEAST_VARIED * highs_w[0]:
        return finding("boards_steady", low_w=float(lows_w[0]), high_w=float(highs_w[0]))
    names = ("boards", "processors")
    for name, value_w, low_w, high_w in zip(names, point, map(float, lows_w), map(float, highs_w), strict=False):
        beyond_w = BEYOND * (high_w - low_w)
        if not low_w - beyond_w <= value_w <= high_w + beyond_w:
            return finding("beyond_fit", what=name, value_w=value_w, low_w=low_w, high_w=high_w)
    return None
