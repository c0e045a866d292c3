"""Moments at which rounds are read. Pure arithmetic.

Samples at equal distances can fall into step with a periodic load, and then always see it at the same phase. So each
sample is taken at a random moment of its interval (stratified sampling), which makes the errors of the intervals
independent. `chance()` returns a random number from 0 to 1.
"""

from __future__ import annotations

import math
from typing import Callable, Sequence

# Readings close to each other show a counter's refresh interval: so much later, as shares of the interval, the counters
# are read once more after each of the first ticks.
PROBES: Sequence[float] = tuple(0.3 / 2**power for power in range(8)) * 3
COUNTER_SHARE = 0.25  # largest share of the time in which slow counters are read
FEW_ROUNDS = 3.0  # a slow round takes one part in so many of the time: pauses at random moments take the rest


# Begin and end of the last round to the moment of the next one, all in seconds.
Pace = Callable[[float, float], float]


def deadlines(start_s: float, interval_s: float, chance: Callable[[], float], skip: Callable[[int], None]) -> Pace:
    """Return the usual pace, in which a deadline depends on its tick alone and not on the time of earlier rounds.

    A late round skips ticks and never causes a burst.
    """
    tick = -1

    def next_s(begin_s: float, end_s: float) -> float:
        nonlocal tick
        tick += 1
        if not tick:
            return start_s
        deadline_s = start_s + (tick + chance()) * interval_s
        if end_s <= deadline_s:
            return deadline_s
        late = math.ceil((end_s - start_s) / interval_s - 1e-9) - tick  # number of ticks that have begun since
        if late <= (0 if end_s - begin_s > interval_s else 1):
            # Two random moments may be closer to each other than a reading takes: then the second round is now.
            return deadline_s
        skip(late)
        tick += late
        return start_s + (tick + chance()) * interval_s

    return next_s


def random_pauses(interval_s: float, chance: Callable[[], float], skip: Callable[[int], None]) -> Pace:
    """Return the pace of rounds that take a large part of an interval: random pauses, in proportion to their time.

    A deadline that has to wait for the round before it would no longer be random.
    """
    skipped = 0.0  # ticks

    def next_s(begin_s: float, end_s: float) -> float:
        nonlocal skipped
        busy_s = end_s - begin_s
        period_s = max(interval_s, FEW_ROUNDS * busy_s)
        skipped += period_s / interval_s - 1
        skip(int(skipped))
        skipped -= int(skipped)
        return end_s + chance() * 2 * (period_s - busy_s)

    return next_s


def counter_pace(interval_s: float, chance: Callable[[], float]) -> Pace:
    """Return the pace of slow counters in a thread of their own, which take at most COUNTER_SHARE of the time."""
    probes = list(PROBES)

    def next_s(begin_s: float, end_s: float) -> float:
        rested_s = begin_s + (end_s - begin_s) / COUNTER_SHARE
        if probes:
            return rested_s + probes.pop() * interval_s
        return max(rested_s, begin_s + (0.5 + chance()) * interval_s)

    return next_s
