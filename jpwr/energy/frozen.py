"""Readings of a sensor that serves old values: power repeats, and something else contradicts it."""

from __future__ import annotations

from collections import Counter
from itertools import chain, compress, count, islice, tee
from operator import ne
from typing import Iterator

from jpwr.channel import ChannelInfo
from jpwr.energy.power import GAP_STEPS, usual_step_s
from jpwr.intervals import ASSUMED_ACCURACY, SAMPLES_FOR_A_PEAK, Numbers
from jpwr.stored import between, searches

SELDOM = 0.01  # share of readings that repeat the one before, up to which a sensor is fine enough to show a freeze


def frozen_runs(
    info: ChannelInfo, times_s: Numbers, power_w: Numbers, counter_times_s: Numbers, counter_j: Numbers
) -> list[tuple[int, int]]:
    """Return the indices of the first and last reading of each run of equal powers in which the sensor was frozen.

    The run is longer than the sensor's own times, and its counter stood still from the same reading to the same one.
    Or 59 or more other readings of that level seldom repeat, and the next one differs by more than the sensor's step.
    """
    usual_s = info.held_s + info.averaging_s + info.counter_refresh_s + GAP_STEPS * usual_step_s(times_s)
    is_counted, frozen = info.counter_refresh_s > 0 and not info.from_counter, []
    runs = [] if info.estimated else [*_repeats(power_w)]  # a model of power repeats its limits
    repeats: Counter[float] = Counter()
    for first, last in runs:
        repeats[power_w[first]] += last - first
    for first, last in runs:
        start_s, end_s, watts = times_s[first], times_s[last], power_w[first]
        if end_s - start_s <= 3 * usual_s:
            continue
        must_count = is_counted and watts * (end_s - start_s - usual_s) > info.counter_resolution_j
        if must_count and _stood_still(counter_times_s, counter_j, start_s, end_s, usual_s):
            frozen.append((first, last))
        elif first > 0 and last + 1 < len(power_w) and abs(power_w[last + 1] - watts) > info.resolution_w:
            others = sum(many for level_w, many in repeats.items() if abs(level_w - watts) <= ASSUMED_ACCURACY * watts)
            if others - (last - first) <= SELDOM * len(power_w) and _seldom_repeats(power_w, watts, last - first):
                frozen.append((first, last))
    return frozen


def _repeats(power_w: Numbers) -> Iterator[tuple[int, int]]:
    """Yield the indices of the first and last reading of each run of more than GAP_STEPS equal powers."""
    changes = compress(count(1), map(ne, islice(power_w, 1, None), power_w))
    firsts, ends = tee(chain([0], changes, [len(power_w)]))
    for first, end in zip(firsts, islice(ends, 1, None)):
        if end - first > GAP_STEPS:
            yield first, end - 1


def _stood_still(times_s: Numbers, counter_j: Numbers, start_s: float, end_s: float, edge_s: float) -> bool:
    """Whether a counter stood still from one moment to another, both to within `edge_s`, but not before or after."""
    bisect_left, bisect_right = searches(times_s)
    first, last = bisect_left(times_s, start_s + edge_s), bisect_right(times_s, end_s - edge_s)
    before, after = bisect_left(times_s, start_s - edge_s), bisect_right(times_s, end_s + edge_s)
    around = [*counter_j[max(0, before - 1) : before], *counter_j[after : after + 1]]
    if first >= last or not around or counter_j[first] in around:
        return False
    return all(map(counter_j[first].__eq__, between(counter_j, first + 1, last)))


def _seldom_repeats(power_w: Numbers, watts: float, repeats: int) -> bool:
    """Whether 59 or more pairs of readings in a row of one level, those of a run left out, seldom are equal."""
    far_w, pairs = ASSUMED_ACCURACY * watts, zip(power_w, islice(power_w, 1, None))
    equal = [one == other for one, other in pairs if max(abs(one - watts), abs(other - watts)) <= far_w]
    others = len(equal) - repeats
    return others >= SAMPLES_FOR_A_PEAK and sum(equal) - repeats <= SELDOM * others
