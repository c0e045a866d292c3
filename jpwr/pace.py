"""When a counter was renewed, from the even pace at which it is.

Pure arithmetic: no clock, no files, no vendor library. A value that is new was renewed since the reading before it; one
that is still shown was not renewed meanwhile. Few rows of moments at equal distances agree with all of that.
"""

from __future__ import annotations

import math
from itertools import repeat
from typing import List, NamedTuple, Sequence, Tuple

from jpwr.refresh import Refresh

BLOCK = 128  # changes whose rows are found together
FEWEST, MOST = 16, 256  # changes from which that is told
# By so much of its time a refresh may be early or late; the smallest one that explains what was seen.
UNEVEN = (0.001, 0.004, 0.015, 0.06)
# A refresh that is off by a share of its time contradicts that share of all readings; fewer than so many may be chance.
READINGS_TO_CONTRADICT = 3
CLOSE = 0.1  # while rows are sought, their ends are known to so much of a refresh
MOST_ROWS = 64


class Change(NamedTuple):
    """A value that a reading showed first."""

    reading: int  # the number of that reading
    before_s: float  # the reading before it
    seen_s: float
    shown_s: float  # the last reading of which it is sure that no refresh had come since; -inf where none tells


class _Row(NamedTuple):
    """All rows of equal distances within `period_s` ± `half_s` that have a moment between `early_s` and `late_s`."""

    period_s: float
    half_s: float
    early_s: float = -math.inf
    late_s: float = math.inf


# Rows as corners of a convex region, each the period and a moment of a row: between them all agree.
_Region = List[Tuple[float, float]]


class _Found(NamedTuple):
    """The rows that agree with changes, moments counted from an origin, and how far a refresh may be off."""

    regions: list[_Region]
    origin_s: float = 0.0
    slack_s: float = 0.0


class Pace:
    """The moments of a counter's refreshes, told from its changes, block by block and only where it is asked."""

    def __init__(self, changes: Sequence[Change], refresh: Refresh) -> None:
        self._changes, self._refresh = changes, refresh
        self._blocks: dict[int, _Found] = {}
        self._moments_s: dict[int, tuple[float, float]] = {}

    def moment_s(self, index: int) -> tuple[float, float]:
        """Between which two moments the value of a change was renewed, in seconds."""
        if index not in self._moments_s:
            self._moments_s[index] = self._moment_s(index)
        return self._moments_s[index]

    def _moment_s(self, index: int) -> tuple[float, float]:
        block, change = index // BLOCK, self._changes[index]
        if block not in self._blocks:
            end = min(len(self._changes), (block + 1) * BLOCK)
            self._blocks[block] = self._find((block * BLOCK + end) // 2)
        if not self._blocks[block].regions:
            return _earliest_s(change, self._refresh.longest_s), change.seen_s
        return _moment_s(change, self._blocks[block])

    def _find(self, middle: int) -> _Found:
        origin_s = self._changes[middle].seen_s
        for uneven in UNEVEN if self._refresh.is_even else ():
            regions, readings = self._regions(middle, origin_s, uneven)
            if regions:
                slack_s = (uneven + READINGS_TO_CONTRADICT / readings) * self._refresh.longest_s
                return _Found(regions, origin_s, slack_s)
        return _Found([])

    def _regions(self, middle: int, origin_s: float, uneven: float) -> tuple[list[_Region], int]:
        """The rows that agree with all changes around the middle, and the number of readings that tell of it; no rows
        where none does, or changes are too few.
        """
        shortest_s, longest_s = self._refresh.shortest_s, self._refresh.longest_s
        period_s = (shortest_s + longest_s) / 2
        slack_s = uneven * period_s
        rows = [_Row(period_s, (longest_s - shortest_s) / 2)]
        size = FEWEST // 2
        while rows and size < min(MOST, len(self._changes)):
            size *= 2
            first = max(0, min(middle - size // 2, len(self._changes) - size))
            changes = [_moved(change, origin_s) for change in self._changes[first : first + size]]
            readings = changes[-1].reading - changes[0].reading - sum(map(_is_silent, changes, repeat(period_s)))
            changes.sort(key=lambda change: change.seen_s - _earliest_s(change, period_s))
            reach = max(abs(change.seen_s) for change in changes) / period_s
            rows = _agreeing(rows, changes, CLOSE * period_s / reach, slack_s)
        if not rows or size < FEWEST or readings < FEWEST:
            return [], 0
        return [region for region in (_region(row, changes, slack_s) for row in rows) if region], readings


def _earliest_s(change: Change, period_s: float) -> float:
    return max(change.before_s, change.shown_s - period_s, change.seen_s - period_s)


def _is_silent(change: Change, period_s: float) -> bool:
    """Whether the value would have changed whenever its refresh was."""
    return change.seen_s - change.before_s >= period_s


def _moved(change: Change, origin_s: float) -> Change:
    return Change(change.reading, change.before_s - origin_s, change.seen_s - origin_s, change.shown_s - origin_s)


def _agreeing(rows: list[_Row], changes: Sequence[Change], half_s: float, slack_s: float) -> list[_Row]:
    """The rows that agree with all changes, split until each stands for periods within ± half_s; empty where they are
    too many to tell.
    """
    while True:
        fine = rows[0].half_s <= half_s
        rows = [row for row in (_agreed(row, changes, slack_s) for row in rows) if row]
        if fine or not rows or len(rows) > MOST_ROWS:
            return rows if len(rows) <= MOST_ROWS else []
        rows = [_Row(row.period_s + side * row.half_s / 2, row.half_s / 2) for row in rows for side in (-1, 1)]


def _agreed(row: _Row, changes: Sequence[Change], slack_s: float) -> _Row | None:
    """The row with the limits that changes, the surest ones first, leave its moment; None where they contradict."""
    period_s, half_s = row.period_s, row.half_s
    shown_before_s = period_s + half_s
    early_s = late_s = 0.0
    is_known = False
    for _, before_s, seen_s, shown_s in changes:
        least_s = shown_s - shown_before_s
        least_s = (before_s if before_s > least_s else least_s) - slack_s
        most_s = seen_s + slack_s
        if most_s - least_s + late_s - early_s >= period_s:
            continue  # more than one moment of the row may be meant
        times = round((least_s + most_s - early_s - late_s) / (2 * period_s))
        pad_s = abs(times) * half_s
        least_s -= times * period_s + pad_s
        most_s -= times * period_s - pad_s
        if not is_known:
            early_s, late_s, is_known = least_s, most_s, True
        if least_s > early_s:
            early_s = least_s
        if most_s < late_s:
            late_s = most_s
        if early_s > late_s:
            return None
    return _Row(period_s, half_s, early_s, late_s) if is_known else None


def _region(row: _Row, changes: Sequence[Change], slack_s: float) -> _Region:
    """Of the rows that one stands for, those that agree with all changes; empty where none does."""
    periods_s = row.period_s - row.half_s, row.period_s + row.half_s
    corners = [(periods_s[0], row.early_s), (periods_s[1], row.early_s)]
    corners += [(periods_s[1], row.late_s), (periods_s[0], row.late_s)]
    for _, before_s, seen_s, shown_s in changes:
        least_s, most_s = max(before_s, shown_s - periods_s[1]) - slack_s, seen_s + slack_s
        if most_s - least_s >= periods_s[0]:
            continue
        first = math.ceil(min((least_s - moment_s) / period_s for period_s, moment_s in corners))
        last = math.floor(max((most_s - moment_s) / period_s for period_s, moment_s in corners))
        if first < last:
            continue  # more than one moment of a row may be meant
        corners = _cut(corners, [moment_s + first * period_s - least_s for period_s, moment_s in corners])
        corners = _cut(corners, [most_s - moment_s - first * period_s for period_s, moment_s in corners])
        if not corners:
            break
    return corners


def _cut(corners: _Region, inside: Sequence[float]) -> _Region:
    """The part of a convex region where what is told at its corners, and goes evenly in between, is not below 0."""
    if min(inside, default=0.0) >= 0:
        return corners
    found = []
    for number, ((period_s, moment_s), value) in enumerate(zip(corners, inside)):
        (before_period_s, before_s), value_before = corners[number - 1], inside[number - 1]
        if (value < 0) != (value_before < 0):
            share = value_before / (value_before - value)
            edge_s = before_period_s + share * (period_s - before_period_s)
            found.append((edge_s, before_s + share * (moment_s - before_s)))
        if value >= 0:
            found.append((period_s, moment_s))
    return found


def _moment_s(change: Change, found: _Found) -> tuple[float, float]:
    """Between which moments the last refresh before a change was seen can have been, by all rows."""
    seen_s, slack_s = change.seen_s - found.origin_s, found.slack_s
    least_s, most_s = math.inf, -math.inf
    for region in found.regions:
        first = min(math.floor((seen_s - slack_s - moment_s) / period_s) for period_s, moment_s in region)
        last = max(math.floor((seen_s + slack_s - moment_s) / period_s) for period_s, moment_s in region)
        least_s = min(least_s, min(moment_s + first * period_s for period_s, moment_s in region))
        most_s = max(most_s, max(moment_s + last * period_s for period_s, moment_s in region))
    longest_s = max(period_s for region in found.regions for period_s, _ in region)
    earliest_s = _earliest_s(change, longest_s + 2 * slack_s)
    least_s, most_s = found.origin_s + least_s - slack_s, found.origin_s + most_s + slack_s
    return min(max(least_s, earliest_s), change.seen_s), max(earliest_s, min(most_s, change.seen_s))
