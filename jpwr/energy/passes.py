"""Energy of one channel over several windows as one: the passes of a region, the parts of a measurement."""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Iterable, NamedTuple, Sequence

from jpwr.energy.estimate import EnergyEstimate, add_estimates
from jpwr.energy.window import ChannelEnergy


class Pass(NamedTuple):
    """A window and its energy."""

    start_s: float
    end_s: float
    estimate: EnergyEstimate


def energy_of_passes(curve: ChannelEnergy, windows_s: Iterable[tuple[float, float]]) -> EnergyEstimate:
    """Add up the energy of windows, given as starts and ends in seconds, in the order of their ends.

    Energy that one pass gains at its last edge, the next one loses at its first. So passes are one window if the pause
    between them can use less than the uncertainty of these two edges. Unknown if the energy of one window is.
    """
    passes = [Pass(start_s, end_s, curve.between(start_s, end_s)) for start_s, end_s in windows_s]
    if not passes:
        return EnergyEstimate(unknown="has no window longer than 0 s")
    if lost := next((one.estimate for one in passes if one.estimate.unknown), None):
        return lost
    if any(after.start_s < before.end_s for before, after in zip(passes, passes[1:])):
        return _total(passes, overlap=True)
    most_w = curve.power.range_w(passes[0].start_s, passes[-1].end_s)[1]
    rows = [passes[:1]]
    for before, after in zip(passes, passes[1:]):
        pause_s = after.start_s - before.end_s
        open_j = (before.estimate.systematic_j + after.estimate.systematic_j) / 2
        if pause_s == 0 or pause_s * most_w < open_j:
            rows[-1].append(after)
        else:
            rows.append([after])
    total = reduce(add_estimates, [_bounded(curve, row, _total(row), most_w) for row in rows])
    return _bounded(curve, passes, total, most_w)


def _total(passes: Sequence[Pass], overlap: bool = False) -> EnergyEstimate:
    return reduce(partial(add_estimates, overlap=overlap), [one.estimate for one in passes])


def _bounded(curve: ChannelEnergy, passes: Sequence[Pass], total: EnergyEstimate, most_w: float) -> EnergyEstimate:
    """Return the sum of passes with its interval, or with that of the window around them if that is narrower.

    The power of the pauses in that window is between 0 and `most_w`.
    """
    if len(passes) == 1:
        return total
    whole = curve.between(passes[0].start_s, passes[-1].end_s)
    if whole.unknown:
        return total
    pauses_s = math.fsum(after.start_s - before.end_s for before, after in zip(passes, passes[1:]))
    if not pauses_s:
        return whole if whole.uncertainty_j < total.uncertainty_j else total
    low_j = max(0.0, whole.energy_j - whole.uncertainty_j - most_w * pauses_s)
    uncertainty_j = max(total.energy_j - low_j, whole.energy_j + whole.uncertainty_j - total.energy_j)
    if not uncertainty_j < total.uncertainty_j:
        return total
    return total._replace(uncertainty_j=uncertainty_j, systematic_j=max(0.0, uncertainty_j - whole.random_j))
