"""Access to values of records by path, and the format of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from functools import cache, wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from record.model import Record
from record.part import Part

THROUGHPUT, WORK = "metrics.{unit}_per_s", "energy.{unit}_per_wh"
PER_DEVICE = "metrics.{unit}_per_s_per_device"
SIGNIFICANT = 4  # digits of a number without an interval
Item = TypeVar("Item")
Key = TypeVar("Key")


def value_at(record: Record, path: str) -> Any:
    """Return the value at a path such as `metrics.tokens_per_s`, or at the first of several that has one, else None."""
    for keys in _keys(path, record.work_unit):
        value: Any = record
        for key in keys:
            value = (vars(value) if isinstance(value, Part) else value if isinstance(value, dict) else {}).get(key)
        if value is not None:
            return value
    return None


@cache
def _keys(path: str, unit: str) -> list[Sequence[str]]:
    return [one.split(".") for one in path.replace("{unit}", unit).split("|")]


def once(function: Callable[[Record], Item]) -> Callable[[Record], Item]:
    """Compute a function of a record once for each record."""
    known: WeakKeyDictionary[Record, Item] = WeakKeyDictionary()

    @wraps(function)
    def value(record: Record) -> Item:
        if record not in known:
            known[record] = function(record)
        return known[record]

    return value


def epoch_s(moment: str | None) -> float | None:
    """Return a moment in ISO 8601, of UTC unless it has a zone, in seconds since 1970; None if it cannot be read."""
    try:
        found = datetime.fromisoformat((moment or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


def is_accelerated(record: Record) -> bool | None:
    """Return whether accelerators trained, and not processors; None if the record does not state it."""
    if any(device.device_id for device in record.devices):
        return True
    known = record.option("compute.device")
    return None if known is None else bool(known != "cpu")


def count(number: int, noun: str) -> str:
    """Return a number of things, with the noun in the plural where needed."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def grouped(items: Iterable[Item], key: Callable[[Item], Key | None]) -> dict[Key, list[Item]]:
    """Return items by a key of each, in the order of their first ones; those whose key is None are left out."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        if (item_key := key(item)) is not None:
            groups.setdefault(item_key, []).append(item)
    return groups


def devices_text(number: int) -> str:
    """Return a number of devices as text."""
    return count(number, "device")


def rounded(value: float | None, half_width: float | None = None) -> str:
    """Return a number with the digits that its interval supports: two of the half-width, else four in all."""
    if value is None or not math.isfinite(value):
        return ""
    if half_width and math.isfinite(half_width):
        decimals = 1 - math.floor(math.log10(half_width))
    else:
        decimals = SIGNIFICANT - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, decimals):,.{max(0, decimals)}f}"
