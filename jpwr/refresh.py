"""How often a sensor has a new value, told from its readings: of power, or of a counter.

Pure arithmetic: no clock, no files, no vendor library.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from operator import ne, sub
from typing import NamedTuple, Sequence

MIN_CHANGES_TO_TELL = 4
MOSTLY, OFTEN = 0.9, 0.15
STAYS = 5.0  # times the usual one
SHOWN_ONCE = 1.5  # times the usual one: longer than that is twice, by chance the same value
SHORTEST_HOLD = 2.5  # samples
LATTICE_STEP, LATTICE_UNEVEN, MOST_REFRESHES = 0.995, (0.005, 0.04, 0.12), 10
SENSORS_WANDER = 3.0  # one time for which a value stays over another, at most: phases of a load differ by more
LOAD_LEVELS = 20  # more values than this that all stay for one time are a sensor's, and not a load's own
SMALL = 0.02  # of all power that was seen: loads change by more, as a rule, and noise by less
CHANCE = 1e-4  # below this, what was seen is no chance
TRIED, TRIED_STEP, MOST_STAYS = 60, 0.87, 30  # down to a 4000th of what is possible at all


class Refresh(NamedTuple):
    """How often a sensor has a new value, told from the moments at which readings changed."""

    longest_s: float  # time between two new values, at most
    shortest_s: float  # what one value was seen for; 0 where none was in two readings
    is_even: bool = True  # whether one time between two new values explains all


def find_refresh(times_s: Sequence[float], changed: Sequence[int], telling: Sequence[bool]) -> Refresh:
    """From the times of readings, the indices of those that differ from the one before, at least two, and for each
    value between two of these whether it would have changed with any refresh.
    """
    before_s, after_s = [times_s[index - 1] for index in changed], [times_s[index] for index in changed]
    shown_s = [shown_s for shown_s, tells in zip(map(sub, before_s[1:], after_s), telling) if tells]
    least_s = max(shown_s, default=0.0)
    # Two refreshes lie between the reading before one change and the reading after the next.
    spans_s = list(map(sub, after_s[1:], before_s))
    if min(spans_s) < least_s:  # it has no even pace
        return Refresh(max(spans_s), least_s, is_even=False)
    stayed_s = [
        times_s[index] - times_s[index - 1]
        for first, last, tells in zip(changed, changed[1:], telling)
        if tells
        for index in range(first + 1, last)
    ]
    gaps_s = sorted(map(sub, after_s, before_s))
    return Refresh(_likely_s(least_s, min(spans_s), gaps_s, sorted(stayed_s)[-MOST_STAYS:]), least_s)


def _likely_s(least_s: float, most_s: float, changed_s: Sequence[float], stayed_s: Sequence[float]) -> float:
    """The longest refresh between two limits with which what was seen is no miracle.

    A gap of g shows a change with the chance g / T, where that is below 1, and none with the chance 1 - g / T. Gaps
    that follow each other are not independent, so that the limit is far below the usual one, and nothing is won so
    where the two limits are close.
    """
    if least_s > most_s / 2:
        return most_s
    logs = [0.0, *accumulate(math.log(gap_s) if gap_s > 0 else -100.0 for gap_s in changed_s)]
    tried = [most_s * TRIED_STEP**power for power in range(TRIED)]
    found: list[tuple[float, float]] = []
    for refresh_s in tried:
        if refresh_s <= least_s:
            break
        shorter = bisect_left(changed_s, refresh_s)
        log_chance = logs[shorter] - shorter * math.log(refresh_s)
        log_chance += sum(math.log(1 - gap_s / refresh_s) for gap_s in stayed_s)
        found.append((log_chance, refresh_s))
    best = max(log_chance for log_chance, _ in found) if found else 0.0
    return max((refresh_s for log_chance, refresh_s in found if log_chance >= best + math.log(CHANCE)), default=most_s)


def find_held_s(times_s: Sequence[float], power_w: Sequence[float], usual_step_s: float) -> float:
    """How long the sensor shows the same value before it has a new one, in seconds; 0 where every sample is new."""
    changed = [index for index, differs in enumerate(map(ne, power_w[1:], power_w), 1) if differs]
    if len(changed) <= MIN_CHANGES_TO_TELL:
        return _held_by_few_s(times_s, power_w, changed)
    shown = list(map(sub, changed[1:], changed))
    # A value that is shown far longer than others is one of power that stays.
    usual_shown = sorted(shown)[len(shown) // 2]
    tells = [samples <= STAYS * usual_shown for samples in shown]
    if sum(tells) > MOSTLY * sum(samples for samples, tell in zip(shown, tells) if tell):
        return 0.0
    # Two refreshes lie between the reading before one change and the reading after the next.
    spans_s = [times_s[last] - times_s[first - 1] for first, last in zip(changed, changed[1:])]
    values_w = {power_w[index] for index in changed}
    if len(values_w) > MOSTLY * len(changed):
        # Hardly a value comes twice: the same one in two samples is one that was not renewed.
        refresh = find_refresh(times_s, changed, tells)
        if refresh.is_even:
            return refresh.longest_s
        told = sorted(samples for samples, tell in zip(shown, tells) if tell)
        tenth = len(told) // 10
        if told[-1 - tenth] > SENSORS_WANDER * (told[tenth] + 1):
            return 0.0
        return max(span_s for span_s, tell in zip(spans_s, tells) if tell)
    many = len(values_w) > LOAD_LEVELS
    small_w = SMALL * (max(values_w) - min(values_w))
    small = sum(abs(power_w[index] - power_w[index - 1]) <= small_w for index in changed)
    if small > OFTEN * len(changed):
        # Noise, in steps so coarse that a new value often is the old one: how soon another one comes at the soonest.
        soonest_s = min(spans_s)
        if soonest_s > 2 * usual_step_s:
            return soonest_s
        if not many:
            return 0.0
    if many:
        once = [samples <= SHOWN_ONCE * usual_shown for samples in shown]
        refresh = find_refresh(times_s, changed, once)
        if refresh.is_even and refresh.longest_s > usual_step_s:  # a shorter one is not seen
            return refresh.longest_s
        told = sorted(samples for samples, tell in zip(shown, once) if tell)
        tenth = len(told) // 10
        if 1 < told[-1 - tenth] <= SENSORS_WANDER * told[tenth]:
            return max(span_s for span_s, tell in zip(spans_s, once) if tell)
    before_s, after_s = [times_s[index - 1] for index in changed], [times_s[index] for index in changed]
    return _lattice_s(before_s, after_s, [power_w[index] for index in changed], usual_step_s)


def _held_by_few_s(times_s: Sequence[float], power_w: Sequence[float], changed: Sequence[int]) -> float:
    """The same from few values: where none comes twice and all stay for nearly one time, that may be a sensor's."""
    if len(changed) < 2 or len({power_w[0], *(power_w[index] for index in changed)}) <= len(changed):
        return 0.0
    shown = list(map(sub, changed[1:], changed))
    if min(shown) < 2 or max(shown) > SENSORS_WANDER * min(shown):
        return 0.0
    longest_s = max(times_s[last] - times_s[first - 1] for first, last in zip(changed, changed[1:]))
    at_the_ends_s = max(times_s[changed[0] - 1] - times_s[0], times_s[-1] - times_s[changed[-1]])
    return longest_s if at_the_ends_s <= 2 * longest_s else 0.0  # two values may by chance be one


def _lattice_s(
    before_s: Sequence[float], after_s: Sequence[float], levels_w: Sequence[float], usual_step_s: float
) -> float:
    """The sensor's interval where power has a few levels, from the moments between which each change came: all times
    between changes are multiples of it, and that is no chance.

    A load that stays on each of its levels for one time of that level's own is no sensor.
    """
    by_level: dict[float, list[float]] = {}
    for level_w, stay_s in zip(levels_w, map(sub, after_s[1:], after_s)):
        by_level.setdefault(level_w, []).append(stay_s)
    if all(max(times_s) - min(times_s) <= 4 * usual_step_s for times_s in by_level.values()):
        return 0.0
    stays = [
        ((first_s + last_s) / 2, (last_s - first_s) / 2)
        for first_s, last_s in zip(map(sub, before_s[1:], after_s), map(sub, after_s[1:], before_s))
    ]
    longest_s = min(stay_s + unsure_s for stay_s, unsure_s in stays)
    if not 0 < SHORTEST_HOLD * usual_step_s <= longest_s:
        return 0.0
    number = math.floor(math.log(longest_s / (SHORTEST_HOLD * usual_step_s)) / -math.log(LATTICE_STEP)) + 1
    tried: list[float] = [longest_s * LATTICE_STEP**power for power in range(number)]
    for uneven in LATTICE_UNEVEN:
        for held_s in tried:
            log_chance = _log_chance(stays, held_s, uneven)
            if log_chance < math.log(CHANCE / len(tried)) and _differ(by_level, held_s):
                return held_s
    return 0.0


def _differ(by_level: dict[float, list[float]], held_s: float) -> bool:
    """Whether a level stays now for one refresh and now for several: a load's own times vary less, and about any."""
    for stays_s in by_level.values():
        times = [round(stay_s / held_s) for stay_s in stays_s]
        if len(times) > MIN_CHANGES_TO_TELL and max(map(times.count, set(times))) <= (1 - OFTEN) * len(times):
            return True
    return False


def _log_chance(stays: Sequence[tuple[float, float]], held_s: float, uneven: float) -> float:
    """How likely it is by chance that all of these times, each known to so much, are multiples of one that wanders by
    such a share; 0 where they are not.
    """
    log_chance = 0.0
    for stay_s, unsure_s in stays:
        times = max(1, round(stay_s / held_s))
        if times <= MOST_REFRESHES:
            around_s = unsure_s + uneven * held_s * math.sqrt(times)
            if abs(stay_s - times * held_s) > around_s:
                return 0.0
            log_chance += min(0.0, math.log(2 * around_s / held_s))
    return log_chance
