"""Access to parts of a record: its windows by node, its devices, its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from jpwr.energy.estimate import JOULES_PER_WH as JOULES_PER_WH
from record.model import Channel, Node, Record, Window
from record.values import grouped

# Of a layout: the values that copies of a point that ran at once add up to.
OF_ALL_COPIES = ("num_devices", "global_batch_size", "data_parallel_size")
Source = TypeVar("Source")


def windows_of(record: Record, kind: str) -> dict[str, list[Window]]:
    """Return the windows of one kind by the node's host name."""
    return grouped((one for one in record.windows if one.kind == kind), lambda window: window.hostname)


def of_node(window: Window, sources: Sequence[Source], facts: Callable[[Source], Mapping[str, Any]]) -> Source | None:
    """Return the trace or profile of a window's node; None without one.

    A node's name can differ in and outside of a container; its kernel's boot id cannot.
    """
    same_boot = [one for one in sources if facts(one).get("boot_id") == window.boot_id]
    same_name = [one for one in same_boot if facts(one).get("hostname") == window.hostname]
    return next(iter(same_name or (same_boot if window.boot_id else [])), None)


def total_s(windows: Iterable[Window]) -> float:
    """Return the sum of the windows' durations, in seconds."""
    return sum(window.duration_s for window in windows)


def longest_s(nodes: Mapping[str, Sequence[Window]]) -> float:
    """Return the longest total duration of any node's windows, in seconds; 0 without any."""
    return max(map(total_s, nodes.values()), default=0.0)


def sensor_channels(record: Record) -> list[Channel]:
    """Return the energy channels of the run's own sensors, also if a meter counts, which knows no limits or clocks."""
    return (record.energy.sensor_channels or record.energy.channels) if record.energy else []


def devices_of(record: Record) -> list[dict[str, Any]]:
    """Return what the vendor's tool reported of each device of all nodes."""
    return [device for node in record.provenance.nodes for device in devices_of_node(node)]


def devices_of_node(node: Node) -> list[dict[str, Any]]:
    """Return what the vendor's tool reported of each device of a node."""
    # Newer versions of amd-smi put the list of devices into an object.
    found = node.devices.get("gpu_data") if isinstance(node.devices, dict) else node.devices
    return [device for device in found if isinstance(device, dict)] if isinstance(found, list) else []
