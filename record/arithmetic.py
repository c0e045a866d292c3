"""Arithmetic with numbers that may be missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from record.part import is_number

POWER_PERCENTILES = (75, 90, 99)
SMOOTHED_LOSSES = 10  # in a mean, whose noise is a third of that of a step's loss
TOLERANCE = 1e-6  # relative, of a derived number


def sum_of_all(values: Sequence[Any]) -> float | None:
    """Return the sum; None without values, or if one is not a number."""
    return math.fsum(values) if values and all(map(is_number, values)) else None


def ratio(value: Any, by: Any) -> float | None:
    """Return the quotient; None unless both are numbers and the divisor is not 0."""
    return value / by if is_number(value) and is_number(by) and by else None


def product(*values: Any) -> float | None:
    """Return the product; None if a value is not a number."""
    return math.prod(values) if all(map(is_number, values)) else None


def smoothed(losses: Sequence[Any] | None) -> float | None:
    """Return the mean of the last SMOOTHED_LOSSES losses; None with fewer, or if one is no number."""
    last = (losses or ())[-SMOOTHED_LOSSES:]
    return ratio(sum_of_all(last), SMOOTHED_LOSSES) if len(last) == SMOOTHED_LOSSES else None


def exceeds(part: Any, whole: Any) -> bool:
    """Return whether both are numbers and the part is larger than the whole."""
    return is_number(part) and is_number(whole) and part > whole + TOLERANCE * abs(whole)


def rising(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each of several numbers, by their names, that is larger than the next known one."""
    known = [(name, value) for name, value in numbers.items() if is_number(value)]
    for (name, value), (next_name, most) in pairwise(known):
        if exceeds(value, most):
            yield f"{name} is {value:.6g}, more than the {most:.6g} of {next_name}"


def total(values: Iterable[Any]) -> float:
    """Return the sum of the values that are numbers."""
    return math.fsum(filter(is_number, values))
