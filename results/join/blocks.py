"""Mean powers of a node and its boards in blocks of a run: what a model of the node's power is fitted to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from jpwr.channel import ChannelInfo
from jpwr.energy import ChannelEnergy
from results.join.channels import ADDED_TO, of_one_method
from results.record.model import NodePower, changed

# Readings each 0.1 to 1 s are not independent, and those of a management controller are means over a second or more: in
# a block of ten of them, little of both is left.
LEAST_BLOCK_S, MOST_BLOCKS = 10.0, 120
# A management controller is behind by seconds; a meter's clock may also be ahead of the node's by one.
DELAYS_S = [0.5 * step for step in range(-2, 17)]
BOARDS, NODES = ("device", "module"), ("node", "supply")
Mean = Callable[[float, float], float]  # mean power between two moments, in watts


def blocks_of(hostname: str, curves: Mapping[ChannelInfo, ChannelEnergy]) -> NodePower | None:
    """Return the blocks of a node's trace; None without the power of its boards, or if fewer than three fit."""
    scopes = {scope: of_one_method([one for one in curves if one.scope.value == scope]) for scope in (*BOARDS, "cpu")}
    boards = next((infos for scope in BOARDS if (infos := scopes[scope])), [])
    memory = [one for one in curves if one.scope.value == ADDED_TO["cpu"]]
    node = next((one for scope in NODES for one in curves if one.scope.value == scope), None)
    used = [curves[one].power.times_s for one in (*boards, *scopes["cpu"], *([node] if node else []))]
    if not boards or not all(used):
        return None
    begin_s, end_s = max(times_s[0] for times_s in used), min(times_s[-1] for times_s in used)
    block_s = max(LEAST_BLOCK_S, (end_s - begin_s) / MOST_BLOCKS)
    edges_s = [begin_s + number * block_s for number in range(int((end_s - begin_s) / block_s) + 1)]
    if len(edges_s) < 4:
        return None
    found = NodePower(
        hostname=hostname,
        begin_s=begin_s,
        block_s=block_s,
        boards_w=_means(edges_s, mean_of([curves[one] for one in boards])),
        processors_w=_means(edges_s, mean_of([curves[one] for one in (*scopes["cpu"], *memory)])),
    )
    if not scopes["cpu"]:
        found = changed(found, processors_w=[])
    return with_node(found, mean_of([curves[node]]), node.source) if node else found


def mean_of(curves: Sequence[ChannelEnergy]) -> Mean:
    """Return the mean power of several channels together, as a function of two moments."""
    return lambda start_s, end_s: (
        math.fsum(one.power.until_j(end_s) - one.power.until_j(start_s) for one in curves) / (end_s - start_s)
    )


def with_node(blocks: NodePower, mean: Mean, sensor: str) -> NodePower:
    """Return blocks with the power of the node, at the delay of its sensor that correlates best with the boards."""
    begin_s, block_s = blocks.begin_s, blocks.block_s
    edges_s = [begin_s + number * block_s for number in range(len(blocks.boards_w) + 1)]
    at = partial(_shifted, edges_s, mean)
    delay_s = max(DELAYS_S, key=lambda delay_s: (_alike(blocks, at(delay_s)), -abs(delay_s)))
    return changed(blocks, node_w=at(delay_s), sensor=sensor, delay_s=delay_s)


def _shifted(edges_s: Sequence[float], mean: Mean, delay_s: float) -> list[float]:
    return _means([one + delay_s for one in edges_s], mean)


def _means(edges_s: Sequence[float], mean: Mean) -> list[float]:
    return [mean(*edges) for edges in pairwise(edges_s)]


def _alike(blocks: NodePower, node_w: Sequence[float]) -> float:
    if min(blocks.boards_w) == max(blocks.boards_w) or min(node_w) == max(node_w):
        return 0.0
    return statistics.correlation(blocks.boards_w, node_w)
