"""Ranking of systems: the points that may be ranked, and the first with those that tie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from record.findings import Finding, finding
from record.values import PER_DEVICE, grouped
from results.points.estimate import overlap
from results.points.repeats import PointResults
from results.verdicts.quality import energy_kind


def why_left_out(one: PointResults) -> Finding | None:
    """Return why a point with good runs is left out of all rankings and verdicts; None if it is not."""
    if why := one.wrong:
        return why
    if one.point.to_loss:
        return finding("to_loss")
    if not one.is_comparable:
        return finding("smaller")
    return None if one.precision else finding("no_run", why="its precision is not known")


def ranked_points(results: Sequence[PointResults]) -> Sequence[PointResults]:
    """Return the points with good runs of a comparable workload in a known precision, as `unmixed`."""
    return unmixed([one for one in results if one.good and not why_left_out(one)])


def unmixed(results: Sequence[PointResults]) -> Sequence[PointResults]:
    """Return the ordinary points; without any, those of filled nodes, whose copies run at once, or those to a loss."""
    return [one for one in results if not (one.point.copies or one.point.to_loss)] or results


def by_energy_kind(results: Sequence[PointResults]) -> dict[str, list[PointResults]]:
    """Return the points by kind of energy; within one kind they may be ranked."""
    return grouped(results, lambda one: energy_kind(one.any))


def fastest(results: Iterable[PointResults], path: str = PER_DEVICE, is_least: bool = False) -> PointResults | None:
    """Return the point with the highest value, or the lowest, as `unmixed`; None if no point has one."""
    known = unmixed([one for one in results if one.value(path) is not None])
    return (min if is_least else max)(known, key=lambda one: one.value(path) or 0.0, default=None)


def best_by_devices(results: Sequence[PointResults]) -> dict[int, PointResults]:
    """Return the fastest point per device for each number of devices, fewest devices first."""
    results = unmixed([one for one in results if one.good])
    numbers = sorted({one.point.devices for one in results})
    best = {number: fastest(one for one in results if one.point.devices == number) for number in numbers}
    return {number: one for number, one in best.items() if one}


def best_of_systems(results: Sequence[PointResults], path: str) -> list[PointResults]:
    """Return the point with the highest value of each system, highest value first."""
    best = [one for mine in grouped(results, lambda one: one.system).values() if (one := fastest(mine, path))]
    return sorted(unmixed(best), key=lambda one: one.value(path) or 0.0, reverse=True)


class Ranking(NamedTuple):
    """Systems ranked by one value, each at its best point."""

    first: PointResults
    tied: list[PointResults]  # those that are not distinguishable from the first
    behind: list[PointResults]
    by_accuracy: list[PointResults]  # those of `tied` that tie only because of the accuracy of the sensors


def rank(results: Sequence[PointResults], path: str) -> Ranking | None:
    """Rank systems by a value of which more is better; None if no point has it.

    A system is behind only if the interval of its ratio to the first is below 1. The interval of an energy includes the
    accuracy of sensors of different models.
    """
    best = [one for one in best_of_systems(results, path) if one.estimate(path)]
    if not best:
        return None
    first, *others = best
    tied = [one for one in others if _ties(one, first, path)]
    behind = [one for one in others if one not in tied]
    by_accuracy = [one for one in tied if not _ties(one, first, path, with_accuracy=False)]
    return Ranking(first, tied, behind, by_accuracy)


def _ties(one: PointResults, first: PointResults, path: str, with_accuracy: bool = True) -> bool:
    ratio = one.over(first, path, with_accuracy)
    if ratio is None or ratio.interval is None or ratio.interval.high >= 1:
        return True
    ours, theirs = (side.estimate(path) for side in (one, first))
    return bool(ours and theirs and overlap(ours.interval, theirs.interval))
