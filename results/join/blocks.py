"""Mean powers of a node and its boards in blocks of a run: what a model of the node's power is fitted to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from jpwr import passes
from jpwr.energy import ChannelEnergy
from results.join.channels import ADDED_TO, of_one_method
from results.record.model import NodePower, changed

# Readings each 0.1 to 1 s are not independent, and those of a management controller are means over a second or more: in
# a block of ten of them, little of both is left.
LEAST_BLOCK_S, MOST_BLOCKS, FEWEST_BLOCKS = 10.0, 120, 3
MOST_NODES = 64  # of a run, evenly spread: more would show little about their differences, and fill the record
# A management controller is behind by seconds; a meter's clock may also be ahead of the node's by one.
DELAYS_S = sorted((0.5 * step for step in range(-2, 17)), key=abs)
BOARDS, NODES = ("device", "module"), ("node", "supply")


def blocks_of(hostname: str, every: Iterable[ChannelEnergy]) -> NodePower | None:
    """Return the blocks of a node's trace; None without the power of its boards, or for less than FEWEST_BLOCKS."""
    curves = {one.info: one for one in every if not one.info.estimated}
    scopes = {scope: [one for one in curves if one.scope.value == scope] for scope in (*BOARDS, *NODES, "cpu", "dram")}
    boards = [curves[one] for scope in BOARDS if scopes[scope] for one in of_one_method(scopes[scope])]
    boards = [one for one in boards if one.info.scope == boards[0].info.scope]
    processors = [curves[one] for one in of_one_method(scopes["cpu"]) + scopes[ADDED_TO["cpu"]] if scopes["cpu"]]
    node = [curves[one] for one in next((of_one_method(scopes[one]) for one in NODES if scopes[one]), [])]
    read = [one.power.times_s for one in (*boards, *processors, *node)]
    if not boards or not all(read):
        return None
    begin_s, end_s = max(times_s[0] for times_s in read), min(times_s[-1] for times_s in read)
    block_s = max(LEAST_BLOCK_S, (end_s - begin_s) / MOST_BLOCKS)
    edges_s = [begin_s + number * block_s for number in range(math.floor((end_s - begin_s) / block_s) + 1)]
    if len(edges_s) <= FEWEST_BLOCKS:
        return None
    found = NodePower(
        hostname=hostname,
        begin_s=begin_s,
        block_s=block_s,
        num_boards=sum(one.info.num_devices for one in boards),
        boards_w=_stored(means_w(boards, edges_s)),
        processors_w=_stored(means_w(processors, edges_s)) if processors else [],
    )
    return with_node(found, node, node[0].info.source) if node else found


def means_w(curves: Sequence[ChannelEnergy], edges_s: Sequence[float]) -> list[float]:
    """Return the mean powers of several channels together between neighbouring moments, in watts."""
    return list(map(math.fsum, zip(*(passes.means_w(one.power, edges_s) for one in curves), strict=True)))


def with_node(blocks: NodePower, node: Sequence[ChannelEnergy], sensor: str) -> NodePower:
    """Return blocks with the power of the node, at the delay of its sensor that correlates best with the boards."""
    edges_s = [blocks.begin_s + number * blocks.block_s for number in range(len(blocks.boards_w) + 1)]
    moved = {delay_s: means_w(node, [one + delay_s for one in edges_s]) for delay_s in DELAYS_S}
    delay_s = max(moved, key=lambda one: _alike(blocks.boards_w, moved[one]))
    return changed(blocks, node_w=_stored(moved[delay_s]), sensor=sensor, delay_s=delay_s)


def _stored(powers_w: Sequence[float]) -> list[float]:
    return [round(power_w, 1) for power_w in powers_w]


def _alike(boards_w: Sequence[float], node_w: Sequence[float]) -> float:
    is_steady = min(boards_w) == max(boards_w) or min(node_w) == max(node_w)
    return 0.0 if is_steady else statistics.correlation(boards_w, node_w)
