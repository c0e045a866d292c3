"""Energy of one channel over several windows as one: the passes of a region, the parts of a measurement."""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Iterable, Sequence

from jpwr.energy.window import ChannelEnergy, EnergyEstimate
from jpwr.errors import NotEnoughSamples


def energy_of_passes(curve: ChannelEnergy, windows_s: Iterable[tuple[float, float]]) -> EnergyEstimate:
    """Add up the energy of windows, each a start and an end, at least one, in the order of their ends.

    What one pass gains at its last edge, the next one loses at its first. So passes whose pause can use less than these
    two edges leave open are one window without the pause. Raises NotEnoughSamples as `ChannelEnergy.between` does.
    """
    passes = [(start_s, end_s, curve.between(start_s, end_s)) for start_s, end_s in windows_s]
    most_w = curve.power.range_w(-math.inf, math.inf)[1]
    rows: list[list[tuple[float, float, EnergyEstimate]]] = []
    for one in passes:
        last = rows[-1][-1] if rows else None
        pause_s = one[0] - last[1] if last else math.nan
        if last and (pause_s == 0 or 0 < pause_s * most_w < (last[2].systematic_j + one[2].systematic_j) / 2):
            rows[-1].append(one)
        else:
            rows.append([one])
    overlaps = any(after[0] < before[1] for before, after in zip(passes, passes[1:]))
    sums = [_sum_of_row(curve, row, most_w) for row in rows]
    return reduce(lambda a, b: add_estimates(a, b, overlaps), sums)


def _sum_of_row(
    curve: ChannelEnergy, row: Sequence[tuple[float, float, EnergyEstimate]], most_w: float
) -> EnergyEstimate:
    total = reduce(add_estimates, [estimate for _, _, estimate in row])
    pauses_s = math.fsum(after[0] - before[1] for before, after in zip(row, row[1:]))
    pauses_j = most_w * pauses_s if pauses_s else 0.0
    try:
        whole = curve.between(row[0][0], row[-1][1])
    except NotEnoughSamples:
        return total
    # The pauses use between nothing and `pauses_j` of the whole.
    off_j = max(whole.energy_j - total.energy_j, total.energy_j - whole.energy_j + pauses_j)
    uncertainty_j = whole.uncertainty_j + off_j
    if whole.method != total.method or whole.reason or not uncertainty_j < total.uncertainty_j:
        return total
    return total._replace(uncertainty_j=uncertainty_j, systematic_j=uncertainty_j - whole.random_j)


def add_estimates(a: EnergyEstimate, b: EnergyEstimate, overlap: bool = False) -> EnergyEstimate:
    """Add two windows of one channel.

    Systematic parts add up linearly, random ones as squares, or linearly where windows `overlap`.
    """
    added = operator.add if overlap else math.hypot
    energy_j, duration_s = a.energy_j + b.energy_j, a.duration_s + b.duration_s
    integral_j, counter_j = a.integral_j + b.integral_j, a.counter_j + b.counter_j
    systematic_j = a.systematic_j + b.systematic_j
    integral_systematic_j = a.integral_systematic_j + b.integral_systematic_j
    integral_random_j = added(
        a.integral_uncertainty_j - a.integral_systematic_j, b.integral_uncertainty_j - b.integral_systematic_j
    )
    is_compared = counter_j and not math.isnan(a.difference + b.difference)
    return EnergyEstimate(
        energy_j=energy_j,
        uncertainty_j=systematic_j + added(a.random_j, b.random_j),
        method=a.method if a.method == b.method else "counter+integral",
        reason=a.reason or b.reason,
        duration_s=duration_s,
        covered_s=a.covered_s + b.covered_s,
        avg_power_w=energy_j / duration_s,
        samples=a.samples + b.samples,
        missing=a.missing + b.missing,
        largest_gap_s=max(a.largest_gap_s, b.largest_gap_s),
        integral_j=integral_j,
        integral_uncertainty_j=integral_systematic_j + integral_random_j,
        counter_j=counter_j,
        difference=(integral_j - counter_j) / counter_j if is_compared else math.nan,
        systematic_j=systematic_j,
        integral_systematic_j=integral_systematic_j,
    )
