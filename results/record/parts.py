"""Parts of a record: its windows by node, its devices, and what is a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

JOULES_PER_WH = 3600.0
Found = TypeVar("Found")


def windows_of(record: dict[str, Any], kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the windows of one kind, node by node."""
    found: dict[str, list[dict[str, Any]]] = {}
    for window in record.get("windows") or []:
        if window["kind"] == kind:
            found.setdefault(window["hostname"], []).append(window)
    return found


def of_node(
    window: Mapping[str, Any], found: Sequence[Found], facts: Callable[[Found], Mapping[str, Any]]
) -> Found | None:
    """Return the trace or profile of a window's node; None without one.

    A node's name can differ in and outside of a container; its kernel's boot id cannot.
    """
    same_boot = [one for one in found if facts(one).get("boot_id") == window["boot_id"]]
    same_name = [one for one in same_boot if facts(one).get("hostname") == window["hostname"]]
    return next(iter(same_name or (same_boot if window["boot_id"] else [])), None)


def longest_s(nodes: dict[str, list[dict[str, Any]]]) -> float:
    """Return the longest time of any node in such windows, in seconds; 0 without any."""
    times_s = (sum(window["end_s"] - window["start_s"] for window in windows) for windows in nodes.values())
    return max(times_s, default=0.0)


def devices_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the vendor's tool said of each device of all nodes; older records know one node."""
    origin = record.get("provenance") or {}
    nodes = [node for node in origin.get("nodes") or [origin] if isinstance(node, dict)]
    found = [node.get("devices") or [] for node in nodes]
    # Newer versions of amd-smi put the list of devices into an object.
    lists = [one.get("gpu_data") or [] if isinstance(one, dict) else one for one in found]
    return [device for one in lists if isinstance(one, list) for device in one if isinstance(device, dict)]


def is_number(value: Any) -> TypeGuard[float]:
    """Check for a number, which a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
