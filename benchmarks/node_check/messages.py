"""Figures of the links between devices: collectives of a node and of all nodes, and messages between neighbours.

Bus bandwidths are those of nccl-tests (doc/PERFORMANCE.md), which do not depend on the number of devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.distributed as dist

from benchmarks.node_check.figures import Bench, Call

SMALLEST_BYTES, STEP = 8, 64  # of messages; the next is STEP times as long
ELEMENT_BYTES = 4  # fp32


def sizes_bytes(largest_mb: int) -> list[int]:
    """Return the sizes of messages, the last of which is the largest."""
    found, largest = [SMALLEST_BYTES], largest_mb * 1_000_000
    while found[-1] * STEP < largest:
        found.append(found[-1] * STEP)
    return [*found, largest]


def all_reduce_share(ranks: int) -> float:
    """Return the bus bandwidth of an all-reduce over its bytes per second."""
    return 2 * (ranks - 1) / ranks


def all_gather_share(ranks: int) -> float:
    """Return the bus bandwidth of an all-gather over the gathered bytes per second."""
    return (ranks - 1) / ranks


def measure_messages(bench: Bench) -> None:
    """Measure the links of each node, on all nodes at the same time, then those between the nodes."""
    launch = bench.launch
    own, others = launch.local_world_size, launch.num_nodes
    nodes = [range(first, first + own) for first in range(0, launch.world_size, own)]
    if own > 1:
        groups = [dist.new_group(list(node)) for node in nodes]  # every rank makes every group
        _collectives(bench, "node", nodes[launch.rank // own], groups[launch.rank // own])
        _neighbours(bench, "send_node", nodes[launch.rank // own])
    if others > 1:
        _collectives(bench, "all", range(launch.world_size), None)
        _neighbours(bench, "send_network", range(launch.local_rank, launch.world_size, own))


def _collectives(bench: Bench, scope: str, ranks: Sequence[int], group: dist.ProcessGroup | None) -> None:
    count, device = len(ranks), bench.target.device
    gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # its name from PyTorch 2.13 on
    for size in sizes_bytes(bench.options.largest_message_mb):
        part = torch.zeros(max(1, size // ELEMENT_BYTES // count), device=device)
        whole = torch.zeros(len(part) * count, device=device)
        for name, call, share in (
            ("all_reduce", partial(dist.all_reduce, whole, group=group), all_reduce_share(count)),
            ("all_gather", partial(gather, whole, part, group=group), all_gather_share(count)),
        ):
            rates = _together(bench, f"{name}_{scope}", call, whole.nbytes * share / 1e9)
            if bench.launch.rank == ranks[0]:
                bench.add(f"{name}_{scope}", "GB/s", scope, values=rates, bytes=whole.nbytes, ranks=count)


def _neighbours(bench: Bench, name: str, ranks: Sequence[int]) -> None:
    """Measure each device's links to its two neighbours in a ring of ranks; its figure is that of the faster link.

    So a device with a slow link of its own is slow, and its neighbours are not.
    """
    own = list(ranks).index(bench.launch.rank)
    for size in sizes_bytes(bench.options.largest_message_mb):
        message = torch.zeros(size // ELEMENT_BYTES, device=bench.target.device)
        found = []
        for pairs in rounds(len(ranks)):
            pair = next((pair for pair in pairs if own in pair), None)
            call = partial(_round_trip, message, ranks[sum(pair) - own], own == pair[0]) if pair else None
            rates = _together(bench, name, call, 2 * message.nbytes / 1e9)  # there and back
            found += [(sorted(rates)[len(rates) // 2], rates)] if pair else []
        bench.add(name, "GB/s", "device", values=max(found)[1], bytes=message.nbytes, ranks=2)


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Return the pairs of neighbours in a ring, in rounds in which each place is in one pair at most."""
    pairs = [(place, (place + 1) % count) for place in range(count if count > 2 else 1)]
    odd_one = [pairs.pop()] if count % 2 else []
    return [one for one in (pairs[::2], pairs[1::2], odd_one) if one]


def _round_trip(message: torch.Tensor, partner: int, is_first: bool) -> None:
    for step in (dist.send, dist.recv) if is_first else (dist.recv, dist.send):
        step(message, partner)


def _together(bench: Bench, name: str, call: Call | None, work: float) -> list[float]:
    """Measure a call with other ranks, after all have come here; a rank without a call only agrees on their number."""
    gather = bench.target.gather

    def agree(calls: int) -> int:
        return int(min(filter(None, gather(calls))))

    gather(None)
    bench.mark("begin", name)
    rates: list[float] = bench.rates(call, work, agree) if call else []
    if call is None:
        gather(0)
    bench.mark("end", name)
    return rates
