"""Energy of one channel over several windows as one: the passes of a region, the parts of a measurement.

Pure arithmetic: no clock, no files, no vendor library.
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Iterable, NamedTuple, Sequence

from jpwr.energy import ChannelEnergy, EnergyEstimate, relative_difference
from jpwr.errors import NotEnoughSamples


class _Row(NamedTuple):
    """Passes of which each comes soon after the last one, or overlaps it, as one."""

    start_s: float
    end_s: float
    estimate: EnergyEstimate
    last: EnergyEstimate  # of its last pass
    between_j: float = 0.0  # used between the passes at most; infinite where they overlap


def energy_of_passes(curve: ChannelEnergy, windows_s: Iterable[tuple[float, float]]) -> EnergyEstimate:
    """Start and end of each window, in the order of their ends; at least one. Raises NotEnoughSamples for what one of
    them lacks.
    """
    rows: list[_Row] = []
    for start_s, end_s in windows_s:
        estimate = curve.between(start_s, end_s)
        one = _Row(start_s, end_s, estimate, estimate)
        joined = _joined(rows[-1], one, curve.most_unseen_w) if rows else None
        if joined:
            rows[-1] = joined
        else:
            rows.append(one)
    total = reduce(add_estimates, [_as_one_window(curve, row) for row in rows])
    is_at_once = any(math.isinf(row.between_j) for row in rows)
    return total if is_at_once else _within_all(curve, rows, total)


def _joined(row: _Row, one: _Row, most_w: float) -> _Row | None:
    if one.start_s < row.end_s:
        at_once = add_estimates(row.estimate, one.estimate, at_once=True)
        return _Row(min(row.start_s, one.start_s), one.end_s, at_once, one.last, math.inf)
    pause_s = one.start_s - row.end_s
    between_j = most_w * pause_s if pause_s else 0.0
    if row.last.method == one.last.method and between_j < row.last.uncertainty_j + one.last.uncertainty_j:
        added = add_estimates(row.estimate, one.estimate)
        return _Row(row.start_s, one.end_s, added, one.last, row.between_j + between_j)
    return None


def _as_one_window(curve: ChannelEnergy, row: _Row) -> EnergyEstimate:
    """A row is as sure as all of its time without what is between its passes, where that is surer than their sum: what
    one's last edge gets, the next one's first edge loses.
    """
    if not row.between_j < row.estimate.uncertainty_j:
        return row.estimate
    whole = _whole(curve, row.start_s, row.end_s)
    if whole is None or whole.method != row.estimate.method:
        return row.estimate
    if not whole.uncertainty_j + row.between_j < row.estimate.uncertainty_j:
        return row.estimate
    return row.estimate._replace(
        uncertainty_j=whole.uncertainty_j + row.between_j,
        lasting_j=whole.lasting_j + row.between_j,
        integral_uncertainty_j=whole.integral_uncertainty_j + row.between_j,
        integral_lasting_j=whole.integral_lasting_j + row.between_j,
    )


def _within_all(curve: ChannelEnergy, rows: Sequence[_Row], total: EnergyEstimate) -> EnergyEstimate:
    """Passes that do not overlap use no more than the time from the first to the last one does."""
    if not total.uncertainty_j > total.energy_j:
        return total
    whole = _whole(curve, rows[0].start_s, rows[-1].end_s)
    if whole is None:
        return total
    most_j = max(total.energy_j, whole.energy_j + whole.uncertainty_j - total.energy_j)
    return total._replace(uncertainty_j=min(total.uncertainty_j, most_j), lasting_j=min(total.lasting_j, most_j))


def _whole(curve: ChannelEnergy, start_s: float, end_s: float) -> EnergyEstimate | None:
    """Of all the time, where that is known: what is between passes may be at fault."""
    try:
        return curve.between(start_s, end_s)
    except NotEnoughSamples:
        return None


def add_estimates(a: EnergyEstimate, b: EnergyEstimate, at_once: bool = False) -> EnergyEstimate:
    """Two windows of one channel as one: one bad counter spoils the sum.

    What sampling missed is independent from window to window, unless they are of the same time; what lasts adds up.
    """
    counter_j, integral_sum_j = a.counter_j + b.counter_j, a.integral_j + b.integral_j
    energy_j, duration_s = a.energy_j + b.energy_j, a.duration_s + b.duration_s
    lasting_j = a.lasting_j + b.lasting_j
    integral_lasting_j = a.integral_lasting_j + b.integral_lasting_j
    added = operator.add if at_once else math.hypot
    is_checked = not (math.isnan(a.difference) and math.isnan(b.difference))
    return EnergyEstimate(
        energy_j=energy_j,
        uncertainty_j=lasting_j + added(a.uncertainty_j - a.lasting_j, b.uncertainty_j - b.lasting_j),
        method=a.method if a.method == b.method else "counter+integral",
        reason=a.reason or b.reason,
        duration_s=duration_s,
        covered_s=a.covered_s + b.covered_s,
        avg_power_w=energy_j / duration_s,
        samples=a.samples + b.samples,
        missing=a.missing + b.missing,
        largest_gap_s=max(a.largest_gap_s, b.largest_gap_s),
        integral_j=integral_sum_j,
        integral_uncertainty_j=integral_lasting_j
        + added(a.integral_uncertainty_j - a.integral_lasting_j, b.integral_uncertainty_j - b.integral_lasting_j),
        counter_j=counter_j,
        difference=relative_difference(integral_sum_j, counter_j) if is_checked else math.nan,
        lasting_j=lasting_j,
        integral_lasting_j=integral_lasting_j,
    )
