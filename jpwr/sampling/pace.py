"""When the next round is read. Pure arithmetic.

A load with a period of its own can keep step with samples at equal distances, which then see it always at the same
phase. So each sample is taken at a random moment of its interval (stratified sampling), which makes what is missed in
between independent errors. `chance()` gives a number from 0 to 1.
"""

from __future__ import annotations

import math
from typing import Callable, Sequence

# How often a counter is renewed shows in readings that are close together: the first ticks are followed by such ones.
PROBES: Sequence[float] = tuple(0.3 / 2**power for power in range(8)) * 3  # shares of the interval
COUNTER_SHARE = 0.25  # of the time, which slow counters take at most
FEW_ROUNDS = 3.0  # in time for so many there is one: between fewer, no load would be seen at all of its phases


# From when to when the last round was read to the moment of the next one, in seconds.
Pace = Callable[[float, float], float]


def deadlines(start_s: float, interval_s: float, chance: Callable[[], float], skip: Callable[[int], None]) -> Pace:
    """Return the usual pace: a deadline depends on its tick alone, so what one tick takes does not move the next.

    A round that comes late skips ticks and never bursts.
    """
    tick = -1

    def next_s(begin_s: float, end_s: float) -> float:
        nonlocal tick
        tick += 1
        if not tick:
            return start_s
        deadline_s = start_s + (tick + chance()) * interval_s
        late = math.ceil((end_s - start_s) / interval_s - 1e-9) - tick  # so many ticks have begun since
        if end_s <= deadline_s or late <= (0 if end_s - begin_s > interval_s else 1):
            # Two random moments may be closer together than a reading takes: then the second one is now.
            return deadline_s
        skip(late)
        tick += late
        return start_s + (tick + chance()) * interval_s

    return next_s


def rests(interval_s: float, chance: Callable[[], float], skip: Callable[[int], None]) -> Pace:
    """Return the pace of rounds that take long: the longer, the less often.

    Moments that have to wait for the rounds before them are not random: here the next one is by chance from the last
    one on.
    """
    left_out = 0.0  # ticks

    def next_s(begin_s: float, end_s: float) -> float:
        nonlocal left_out
        busy_s = end_s - begin_s
        period_s = max(interval_s, FEW_ROUNDS * busy_s)
        left_out += period_s / interval_s - 1
        skip(int(left_out))
        left_out -= int(left_out)
        return end_s + chance() * 2 * (period_s - busy_s)

    return next_s


def beside(interval_s: float, chance: Callable[[], float]) -> Pace:
    """Return the pace of counters beside power: they need no random moments, and leave most of the time to others."""
    probes = list(PROBES)

    def next_s(begin_s: float, end_s: float) -> float:
        rested_s = begin_s + (end_s - begin_s) / COUNTER_SHARE
        if probes:
            return rested_s + probes.pop() * interval_s
        return max(rested_s, begin_s + (0.5 + chance()) * interval_s)

    return next_s
