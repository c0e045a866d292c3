"""Which results may be ranked, and which is first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results.points.repeats import PointResults
from results.values import PER_DEVICE
from results.verdicts.quality import energy_kind


def by_precision(results: Sequence[PointResults]) -> dict[str, list[PointResults]]:
    """The points of each precision: within one they may be ranked."""
    found: dict[str, list[PointResults]] = {}
    for one in results:
        found.setdefault(one.precision, []).append(one)
    return found


def ranked_points(results: Sequence[PointResults]) -> list[PointResults]:
    """The points of the workload of the comparison."""
    return [one for one in results if one.good and one.is_comparable]


def by_energy_kind(results: Sequence[PointResults]) -> dict[str, list[PointResults]]:
    """The points of each kind of energy: within one they may be ranked."""
    found: dict[str, list[PointResults]] = {}
    for one in results:
        if kind := energy_kind(one.any):
            found.setdefault(kind, []).append(one)
    return found


def fastest(results: Iterable[PointResults], path: str = PER_DEVICE) -> PointResults | None:
    """The point with the highest value, None where no point has one."""
    known = [(value, one) for one in results if (value := one.value(path)) is not None]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def best_of_systems(results: Sequence[PointResults], path: str) -> list[PointResults]:
    """The point with the highest value of each system that has one, the highest first."""
    systems = dict.fromkeys(one.system for one in results)
    best = [one for system in systems if (one := fastest((one for one in results if one.system == system), path))]
    return sorted(best, key=lambda one: one.value(path) or 0.0, reverse=True)
