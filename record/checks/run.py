"""A record as the rules read it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from record.model import Channel, Energy, Record
from record.part import is_number

TOLERANCE = 1e-6  # relative, of a derived number
KINDS = ("measured", "effective")  # of windows
OUTER, INNER = ("node", "supply"), ("device", "module")  # scopes that contain all devices, and scopes of devices
Sentences = Iterator[str]


def channels(record: Record) -> Iterator[tuple[str, Energy, Channel]]:
    """Yield each channel with its energy and the energy's key."""
    yield from ((key, energy, channel) for key, energy in record.energies.items() for channel in energy.channels)


def exceeds(part: Any, whole: Any) -> bool:
    """Return whether both are numbers and the part is larger than the whole."""
    return is_number(part) and is_number(whole) and part > whole + TOLERANCE * abs(whole)


def rising(numbers: Mapping[str, Any]) -> Sentences:
    """Yield a sentence for each of several numbers, by their names, that is larger than the next known one."""
    known = [(name, value) for name, value in numbers.items() if is_number(value)]
    for (name, value), (next_name, most) in pairwise(known):
        if exceeds(value, most):
            yield f"{name} is {value:.6g}, more than the {most:.6g} of {next_name}"


def total(values: Iterable[Any]) -> float:
    """Return the sum of the values that are numbers."""
    return math.fsum(filter(is_number, values))
