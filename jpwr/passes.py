"""Energy of several windows together, such as the passes of a marked region."""

from __future__ import annotations

import math
from itertools import islice, starmap
from typing import Iterable, Iterator, Sequence, Tuple

from jpwr.energy import ChannelEnergy, EnergyEstimate, add_estimates
from jpwr.energy.power import PowerCurve

Window = Tuple[float, float]  # start and end in seconds


def means_w(curve: PowerCurve, edges_s: Iterable[float]) -> list[float]:
    """Return the mean powers between neighbouring moments, in ascending order, in watts: in one pass over the samples.

    The curve has two samples or more.
    """
    steps = zip(curve.times_s, islice(curve.times_s, 1, None), curve.power_w, islice(curve.power_w, 1, None))
    (from_s, to_s, from_w, to_w), past_j = next(steps), 0.0
    found_w: list[float] = []
    before: Window | None = None
    for edge_s in edges_s:
        while to_s < edge_s and (step := next(steps, None)):
            past_j += (to_s - from_s) * (from_w + to_w) / 2
            from_s, to_s, from_w, to_w = step
        share = min(1.0, max(0.0, (edge_s - from_s) / (to_s - from_s))) if to_s > from_s else 0.0
        until_j = past_j + (edge_s - from_s) * (2 * from_w + share * (to_w - from_w)) / 2
        if before:
            found_w.append((until_j - before[1]) / (edge_s - before[0]))
        before = edge_s, until_j
    return found_w


def energy_of_passes(curve: ChannelEnergy, windows_s: Iterable[Window]) -> EnergyEstimate:
    """Add up the energy of windows, given as starts and ends in seconds, in the order of their ends.

    Energy that one pass gains at its last edge, the next one loses at its first. So passes are one window if the pause
    between them can use less than the uncertainty of these two edges. Unknown if the energy of one window is.
    """
    windows = list(windows_s)
    if not windows:
        return EnergyEstimate(unknown="has no window longer than 0 s")
    most_w = curve.power.range_w(windows[0][0], windows[-1][1])[1]
    overlap = any(start_s < before_s for (_, before_s), (start_s, _) in zip(windows, windows[1:]))
    total: EnergyEstimate | None = None
    for row in starmap(curve.between, windows) if overlap else _rows(curve, windows, most_w):
        if row.unknown:
            return row
        total = add_estimates(total, row, overlap) if total else row
    assert total is not None
    return total if overlap else _bounded(curve, windows, total, most_w)


def _rows(curve: ChannelEnergy, windows: Sequence[Window], most_w: float) -> Iterator[EnergyEstimate]:
    """Yield the energy of each row of passes that are one window; end with the first pass whose energy is unknown."""
    before, first = curve.between(*windows[0]), 0
    row = before
    for number in range(1, len(windows)):
        if before.unknown:
            break
        after, pause_s = curve.between(*windows[number]), windows[number][0] - windows[number - 1][1]
        open_j = (before.systematic_j + after.systematic_j) / 2
        before = after
        if after.unknown:
            break
        if pause_s == 0 or pause_s * most_w < open_j:
            row = add_estimates(row, after)
        else:
            yield _bounded(curve, windows[first:number], row, most_w)
            row, first = after, number
    yield before if before.unknown else _bounded(curve, windows[first:], row, most_w)


def _bounded(curve: ChannelEnergy, windows: Sequence[Window], total: EnergyEstimate, most_w: float) -> EnergyEstimate:
    """Return the sum of passes with its interval, or with that of the window around them if that is narrower.

    The power of the pauses in that window is between 0 and `most_w`.
    """
    if len(windows) == 1:
        return total
    whole = curve.between(windows[0][0], windows[-1][1])
    if whole.unknown:
        return total
    pauses_s = math.fsum(start_s - before_s for (_, before_s), (start_s, _) in zip(windows, windows[1:]))
    if not pauses_s:
        return whole if whole.uncertainty_j < total.uncertainty_j else total
    low_j = max(0.0, whole.energy_j - whole.uncertainty_j - most_w * pauses_s)
    uncertainty_j = max(total.energy_j - low_j, whole.energy_j + whole.uncertainty_j - total.energy_j)
    if not uncertainty_j < total.uncertainty_j:
        return total
    return total._replace(uncertainty_j=uncertainty_j, systematic_j=max(0.0, uncertainty_j - whole.random_j))
