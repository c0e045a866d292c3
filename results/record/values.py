"""Values in records: where they are, and how a number is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from results.record.records import Record

THROUGHPUT, WORK = "metrics.{unit}_per_s", "energy.{unit}_per_wh"
PER_DEVICE = "metrics.{unit}_per_s_per_device"
EFFECTIVE = "metrics.effective_{unit}_per_s"
SIGNIFICANT = 4  # digits of a number without an interval
Item = TypeVar("Item")
Key = TypeVar("Key")


def value_at(record: Record, path: str) -> Any:
    """The value at a path such as `metrics.tokens_per_s`, or the first of several; None where the record has none."""
    for one in path.replace("{unit}", record["work_unit"]).split("|"):
        value: Any = record
        for key in one.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def energy_source(record: Record, energy: str = "energy") -> str:
    """How and where an energy was measured: those of one source may be set against each other; empty without one."""
    found = record.get(energy)
    return f"{found['power_kind']}, {found['power_scope']}" if found else ""


def is_accelerated(record: Record) -> bool | None:
    """Did accelerators train, and not the processors themselves? None where the record does not say."""
    if any(device.get("device_id") for device in record.get("devices") or []):
        return True
    known = value_at(record, "config.compute.device")
    return None if known is None else bool(known != "cpu")


def count(number: int, noun: str) -> str:
    """So many of them, in words."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def grouped(items: Iterable[Item], key: Callable[[Item], Key | None]) -> dict[Key, list[Item]]:
    """Return items by a key of each, in the order of their first ones; those whose key is None are left out."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        if (of_item := key(item)) is not None:
            found.setdefault(of_item, []).append(item)
    return found


def devices_text(number: int) -> str:
    """A number of devices in words."""
    return count(number, "device")


def sort_key(record: Record) -> tuple[str, str, str, int, int]:
    """Systems side by side, then by devices and batch."""
    devices, batch = (value_at(record, f"layout.{key}") or 0 for key in ("num_devices", "global_batch_size"))
    return record["benchmark"], record["system"], record["model"], devices, batch


class Number(Protocol):
    """How a number is written, given half of its interval."""

    def __call__(self, value: float | None, half_width: float | None = None) -> str: ...


def rounded(value: float | None, half_width: float | None = None) -> str:
    """A number with the digits that its interval supports: two of the half width, else four in all."""
    if value is None or not math.isfinite(value):
        return ""
    if half_width and math.isfinite(half_width):
        decimals = 1 - math.floor(math.log10(half_width))
    else:
        decimals = SIGNIFICANT - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def plain(value: float | None, half_width: float | None = None) -> str:
    """A number as it is, for machines."""
    return "" if value is None or not math.isfinite(value) else repr(value)
