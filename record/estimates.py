"""Percentiles, rates and shares of requests over a window, with their 95 % intervals.

Pure arithmetic on numbers: requests next to each other depend on each other, and slices of the window show how much.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from jpwr.intervals import LEVEL, NORMAL_95, students_t
from jpwr.median import percentile

ROUNDS = 4  # that a slice is long, so that one is nearly independent of the next; a round is as long as a request
# Slices of a window. Shorter ones would miss what changes slowly (Schmeiser 1982, Operations Research 30, 556).
FEWEST_SLICES, MOST_SLICES = 5, 10


class Estimate(NamedTuple):
    """A number with its 95 % interval; None where the requests are too few to bound it."""

    value: float
    low: float | None
    high: float | None


def percentile_estimate(values: Sequence[float], percent: float, streams: float) -> Estimate:
    """Return a percentile of values in the order of time, with its interval from order statistics.

    The interval assumes no distribution (Conover 1999, Practical Nonparametric Statistics, section 3.2). Requests next
    to each other share the state of the server and its machine: their number is divided by the design effect. A round
    is as many requests as are in flight, `streams`. An end beyond the largest or smallest value is None: so few
    requests do not bound that percentile.
    """
    ordered, share = sorted(values), percent / 100
    value = percentile(ordered, percent)
    effective = int(len(values) / _design_effect([one <= value for one in values], share, streams))
    low, high = ranks(effective, share)
    # A rank of so many independent values is this share of the way through all of them.
    step = (len(values) + 1) / (effective + 1)
    below, above = math.floor(low * step) - 1, math.ceil(high * step) - 1
    return Estimate(
        value, ordered[below] if below >= 0 and low >= 1 else None, ordered[above] if above < len(ordered) else None
    )


def _slices(rounds: float) -> int:
    return max(FEWEST_SLICES, min(MOST_SLICES, int(rounds / ROUNDS)))


def _design_effect(is_below: Sequence[bool], share: float, streams: float) -> float:
    """Return how many requests have the information of an independent one, at least 1 (Kish 1965, section 5.4).

    The variance of a share over slices of the window against that of independent requests, with Student's t of so few
    slices.
    """
    count, slices = len(is_below), _slices(len(is_below) / streams)
    if count < slices:
        return 1.0
    edges = [round(at * count / slices) for at in range(slices + 1)]
    variance = statistics.variance(statistics.fmean(is_below[low:high]) for low, high in pairwise(edges))
    effect = variance * count / slices / (share * (1 - share)) * (students_t(LEVEL, slices - 1) / NORMAL_95) ** 2
    return min(max(1.0, effect), count / 2)


def ranks(count: int, share: float) -> tuple[float, float]:
    """Return between which ranks, from 1 on, of so many sorted values a quantile lies in 95 of 100 cases.

    From the binomial distribution; of more values than a thousand from the normal one.
    """
    if count > 1000:
        half = NORMAL_95 * math.sqrt(count * share * (1 - share))
        return count * share - half, count * share + half + 1
    below, low, high = 0.0, 0, count + 1
    for rank in range(count + 1):
        below += math.comb(count, rank) * share**rank * (1 - share) ** (count - rank)
        if below <= 0.025:
            low = rank + 1
        if below >= 0.975:
            high = rank + 1
            break
    return low, high


def rate_estimate(amounts: Sequence[tuple[float, float]], start_s: float, end_s: float, round_s: float) -> Estimate:
    """Return a rate per second of (time, amount) over a window, with the interval of the mean over its slices.

    A slice is at least 4 times as long as `round_s`, the time of a request; there are 5 to 10. Student's t.
    """
    slices = _slices((end_s - start_s) / round_s)
    each_s = (end_s - start_s) / slices
    sums = [0.0] * slices
    for time_s, amount in amounts:
        sums[min(slices - 1, int((time_s - start_s) / each_s))] += amount
    rates = [one / each_s for one in sums]
    mean = statistics.fmean(rates)
    half = students_t(LEVEL, slices - 1) * statistics.stdev(rates) / math.sqrt(slices)
    return Estimate(mean, max(0.0, mean - half), mean + half)


def share_estimate(good: int, count: int) -> Estimate:
    """Return a share with Wilson's interval (Wilson 1927, J. Am. Stat. Assoc. 22, 209)."""
    share, z2 = good / count, NORMAL_95**2 / count
    middle, spread = share + z2 / 2, NORMAL_95 * math.sqrt(share * (1 - share) / count + z2 / 4 / count)
    return Estimate(share, (middle - spread) / (1 + z2), (middle + spread) / (1 + z2))
