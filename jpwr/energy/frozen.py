"""Readings of a sensor that serves old values: power repeats for longer than the trace itself explains."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import compress, count, islice, repeat
from math import lgamma, log
from operator import and_, ne, sub
from typing import NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy.power import GAP_STEPS, ROUNDING, usual_step_s
from jpwr.energy.statistics import ASSUMED_ACCURACY, TEST_LEVEL

CANDIDATES = 8  # longest runs that are examined; more would take time


class Run(NamedTuple):
    """Equal readings of power in a row, from index `first` to `last`."""

    first: int
    last: int


def frozen_runs(
    info: ChannelInfo,
    times_s: Sequence[float],
    power_w: Sequence[float],
    counter_times_s: Sequence[float],
    counter_j: Sequence[float],
) -> list[Run]:
    """Return the runs in which the sensor was frozen: the counter stood still as well, or the run is improbable."""
    edges = array("I", [0])
    edges.extend(compress(count(1), map(ne, islice(power_w, 1, None), power_w)))
    edges.append(len(power_w))
    long = compress(count(), map(GAP_STEPS.__lt__, map(sub, islice(edges, 1, None), edges)))
    runs = sorted((Run(edges[number], edges[number + 1] - 1) for number in long), key=lambda run: run.first - run.last)
    frozen: list[Run] = []
    habits: dict[float, tuple[int, int]] = {}
    # A sensor in order repeats a value for its own times, and a sample may be missing.
    usual_s = info.held_s + info.averaging_s + info.counter_refresh_s
    usual_s += GAP_STEPS * usual_step_s(times_s) if runs else 0.0
    is_counted = info.counter_refresh_s > 0 and not info.from_counter
    for run in runs[:CANDIDATES]:
        watts, start_s, end_s = power_w[run.first], times_s[run.first], times_s[run.last]
        if end_s - start_s <= 3 * usual_s:
            break
        must_count = is_counted and watts * (end_s - start_s - usual_s) > info.counter_resolution_j
        if must_count and _stood_still(counter_times_s, counter_j, start_s, end_s, usual_s):
            frozen.append(run)
        elif run.first > 0:  # a constant from the first reading on is no change
            habit = habits[watts] = habits.get(watts) or _habit(power_w, watts)
            if _is_improbable(run.last - run.first, *habit):
                frozen.append(run)
    return frozen


def _stood_still(
    times_s: Sequence[float], counter_j: Sequence[float], start_s: float, end_s: float, edge_s: float
) -> bool:
    """Whether a counter stood still from one moment to another, both to within `edge_s`, but not before or after."""
    shown = set(counter_j[bisect_left(times_s, start_s + edge_s) : bisect_right(times_s, end_s - edge_s)])
    before, after = bisect_left(times_s, start_s - edge_s), bisect_right(times_s, end_s + edge_s)
    around = {*counter_j[max(0, before - 1) : before], *counter_j[after : after + 1]}
    return len(shown) == 1 and bool(around) and not shown & around


def _habit(power_w: Sequence[float], watts: float) -> tuple[int, int]:
    """Return the numbers of pairs of readings in a row within 5 % of a power, and of those that repeat.

    A change by the smallest step counts as a repeat: between two steps of a coarse sensor, a steady power repeats for
    long.
    """
    is_near = bytes(map((ASSUMED_ACCURACY * abs(watts)).__ge__, map(abs, map(sub, power_w, repeat(watts)))))
    are_near = bytes(map(and_, is_near, islice(is_near, 1, None)))
    changes_w = array(
        "d", map(abs, map(sub, compress(islice(power_w, 1, None), are_near), compress(power_w, are_near)))
    )
    smallest_w = max(1.5 * min(filter(None, changes_w), default=0.0), ROUNDING * abs(watts))
    return len(changes_w), sum(map(smallest_w.__ge__, changes_w))


def _is_improbable(repeats: int, pairs: int, repeated: int) -> bool:
    """Whether a sensor in order repeats a value so often with a probability below 0.001.

    If k of n other pairs repeat, by Laplace's rule of succession all of the next L do so with a probability of
    (k+1)...(k+L) / ((n+2)...(n+1+L)). Each end of a run is a chance for another one.
    """
    n, k = pairs - repeats, repeated - repeats
    chance = lgamma(k + 1 + repeats) - lgamma(k + 1) + lgamma(n + 2) - lgamma(n + 2 + repeats)
    return k < n and chance + log(n - k) < log(1 - TEST_LEVEL)
