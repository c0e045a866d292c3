"""Readings of a sensor that serves old values: power repeats for longer than the trace itself explains."""

from __future__ import annotations

from heapq import nsmallest
from itertools import chain, compress, count, islice, repeat, tee
from math import lgamma, log
from operator import and_, ne, sub
from typing import Iterator

from jpwr.channel import ChannelInfo
from jpwr.energy.power import GAP_STEPS, ROUNDING, usual_step_s
from jpwr.intervals import ASSUMED_ACCURACY, TEST_LEVEL, Numbers
from jpwr.stored import between, kept_as, searches

CANDIDATES = 8  # longest runs that are examined; more would take time


def frozen_runs(
    info: ChannelInfo, times_s: Numbers, power_w: Numbers, counter_times_s: Numbers, counter_j: Numbers
) -> list[tuple[int, int]]:
    """Return the indices of the first and last reading of each run of equal powers in which the sensor was frozen.

    In such a run the counter stood still as well, or the run is improbably long. A model of power repeats its limits:
    it has no sensor that can freeze.
    """
    if info.estimated:
        return []
    runs = nsmallest(CANDIDATES, _repeats(power_w), key=lambda run: run[0] - run[1])
    # A sensor in order repeats a value for its own times, and a sample may be missing.
    usual_s = info.held_s + info.averaging_s + info.counter_refresh_s
    usual_s += GAP_STEPS * usual_step_s(times_s) if runs else 0.0
    is_counted = info.counter_refresh_s > 0 and not info.from_counter
    frozen = []
    for first, last in runs:
        start_s, end_s, watts = times_s[first], times_s[last], power_w[first]
        if end_s - start_s <= 3 * usual_s:
            break
        must_count = is_counted and watts * (end_s - start_s - usual_s) > info.counter_resolution_j
        if (must_count and _stood_still(counter_times_s, counter_j, start_s, end_s, usual_s)) or (
            first > 0 and _is_improbable(power_w, watts, last - first)  # a constant from the start on is no change
        ):
            frozen.append((first, last))
    return sorted(frozen)


def _repeats(power_w: Numbers) -> Iterator[tuple[int, int]]:
    """Return the indices of the first and last reading of each run of more than GAP_STEPS equal powers."""
    changes = compress(count(1), map(ne, islice(power_w, 1, None), power_w))
    one, two, three, four = tee(chain([0], changes, [len(power_w)]), 4)
    runs = zip(one, map(sub, islice(two, 1, None), repeat(1)))
    return compress(runs, map(GAP_STEPS.__lt__, map(sub, islice(three, 1, None), four)))


def _stood_still(times_s: Numbers, counter_j: Numbers, start_s: float, end_s: float, edge_s: float) -> bool:
    """Whether a counter stood still from one moment to another, both to within `edge_s`, but not before or after."""
    bisect_left, bisect_right = searches(times_s)
    first, last = bisect_left(times_s, start_s + edge_s), bisect_right(times_s, end_s - edge_s)
    before, after = bisect_left(times_s, start_s - edge_s), bisect_right(times_s, end_s + edge_s)
    around = [*counter_j[max(0, before - 1) : before], *counter_j[after : after + 1]]
    if first >= last or not around or counter_j[first] in around:
        return False
    return all(map(counter_j[first].__eq__, between(counter_j, first + 1, last)))


def _is_improbable(power_w: Numbers, watts: float, repeats: int) -> bool:
    """Whether a sensor in order repeats a value so often with a probability below 0.001.

    Of n other pairs of readings in a row within 5 % of that value, k repeat. By Laplace's rule of succession, all of
    the next L do so with a probability of (k+1)...(k+L) / ((n+2)...(n+1+L)); each end of a run is a chance for another.
    A change by the smallest step counts as a repeat: steady power repeats for long between two steps of a sensor.
    """
    ones, others = (
        map((ASSUMED_ACCURACY * abs(watts)).__ge__, map(abs, map(sub, islice(power_w, first, None), repeat(watts))))
        for first in (0, 1)
    )
    steps_w = map(abs, map(sub, islice(power_w, 1, None), power_w))
    changes_w = kept_as(power_w, compress(steps_w, map(and_, ones, others)))
    smallest_w = max(1.5 * min(filter(None, changes_w), default=0.0), ROUNDING * abs(watts))
    n, k = len(changes_w) - repeats, sum(map(smallest_w.__ge__, changes_w)) - repeats
    chance = lgamma(k + 1 + repeats) - lgamma(k + 1) + lgamma(n + 2) - lgamma(n + 2 + repeats)
    return k < n and chance + log(n - k) < log(1 - TEST_LEVEL)
