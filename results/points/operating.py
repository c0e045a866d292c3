"""Operating points: the same work at several power limits and clocks, and what each costs and saves.

All ratios are to the point at full speed: the one with the highest power limit and clock. They are of one sensor, whose
accuracy cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from results.points.estimate import Estimate, Interval, exactly
from results.points.repeats import PointResults
from results.points.setups import CLOCK_LIMIT, LIMIT, setup_of
from results.record.records import Record
from results.record.values import THROUGHPUT, WORK, energy_source, grouped, value_at

SHARES = (0.95, 0.97)  # of the full speed: what buyers ask for; NVIDIA states its B200 profiles at 97 %
# Facts of a setup that follow the limits: as the sampler and as the vendors' tools record them.
OF_LIMITS = (LIMIT, CLOCK_LIMIT, "power.limit", "clocks.applications.graphics", "limit")
BOUND_PERCENT = 1.0  # of the window; a limit that holds for less does not change a mean that repeats to 1 %
# A mean clock repeats to about 1 %, and a GPU's leakage changes its power by about 1 % in 3 degrees.
MAX_DRIFT_PERCENT, MAX_DRIFT_C = 2.0, 3.0


class Limits(NamedTuple):
    """Limits of each device in watts and MHz; None: not known, or devices have different ones."""

    power_w: float | None
    clock_mhz: float | None

    def __str__(self) -> str:
        amounts = ((self.power_w, "W"), (self.clock_mhz, "MHz"))
        return ", ".join(f"{value:g} {unit}" for value, unit in amounts if value) or "no known limit"


class OperatingPoint(NamedTuple):
    """One point of a sweep; ratios are to the point at full speed, None without a value."""

    limits: Limits
    results: PointResults
    speed: Estimate | None
    work: Estimate | None  # per energy
    limited_percent: float | None  # of the window in which the power limit bound

    @property
    def energy_delay(self) -> Estimate | None:
        """Energy times time for the same work (Horowitz et al. 1994), as a ratio; less is better."""
        return (self.speed * self.work) ** -1 if self.speed and self.work else None

    @property
    def is_bound(self) -> bool | None:
        """Whether the power limit bound; None if unknown."""
        return None if self.limited_percent is None else self.limited_percent > BOUND_PERCENT


class Choice(NamedTuple):
    """The operating point of most work per energy, among those that keep a share of the full speed."""

    share: float  # 0: any speed
    best: OperatingPoint
    ties: list[OperatingPoint]  # not distinguishable from the best
    saved: Interval | None  # share of the energy for the same work, over full speed; None for single runs
    is_distinct: bool  # the interval of `saved` is above 0

    @property
    def saved_share(self) -> float:
        """Energy saved for the same work, as a share."""
        return 1 - 1 / self.best.work.value if self.best.work else 0.0


class Sweep(NamedTuple):
    """Operating points of one system and workload, the one at full speed first."""

    points: list[OperatingPoint]

    @property
    def full(self) -> OperatingPoint:
        """Point at full speed."""
        return self.points[0]

    def choice(self, share: float = 0.0) -> Choice | None:
        """Return the best point whose speed is at least a share of the full speed; None without energies.

        A point with an interval of its speed needs the whole of it above the share.
        """
        able = [one for one in self.points if one.work and (one is self.full or _keeps(one.speed, share))]
        if not able or self.full.work is None:
            return None
        best = max(able, key=lambda one: one.work.value if one.work else 0.0)
        ties = [one for one in able if one is not best and _tie(one, best, len(able))]
        interval = best.work.interval_of_best(len(able)) if best.work and best is not self.full else None
        saved = Interval(1 - 1 / interval.low, 1 - 1 / interval.high) if interval else None
        return Choice(share, best, ties, saved, bool(saved and saved.low > 0))


def _keeps(speed: Estimate | None, share: float) -> bool:
    if speed is None:
        return not share
    return (speed.interval.low if speed.interval else speed.value) >= share


def _tie(one: OperatingPoint, best: OperatingPoint, choices: int) -> bool:
    ratio = one.results.over(best.results, WORK)
    interval = ratio.interval_of_best(choices) if ratio else None
    return interval is None or interval.high >= 1


def limits_of(record: Record) -> Limits:
    """Return what limited the devices of a run; a record of an older version names the power limit alone."""
    channels = value_at(record, "energy.channels") or []
    powers = {(one.get("limits") or one.get("clocks") or {}).get("power_limit_w") for one in channels}
    clocks = {(one.get("limits") or {}).get("clock_limit_mhz") for one in channels}
    return Limits(*(known.pop() if len(known) == 1 else None for known in (powers, clocks)))


def at_limits(results: Iterable[PointResults], power_w: float | None, clock_mhz: float | None) -> list[PointResults]:
    """Return the points at named limits; None names none."""
    wanted = Limits(power_w, clock_mhz)
    return [
        one
        for one in results
        if all(name is None or name == found for name, found in zip(wanted, limits_of(one.any), strict=True))
    ]


def sweeps_of(results: Sequence[PointResults]) -> list[Sweep]:
    """Return a sweep for each system and workload whose good points differ in limits alone, at two points or more."""
    good = [one for one in results if one.good and any(limits_of(one.any))]
    found = []
    for mine in grouped(good, _without_limits).values():
        by_limits = grouped(mine, lambda one: limits_of(one.any))
        if len(by_limits) > 1:
            found.append(_sweep([(limits, _joined(points)) for limits, points in by_limits.items()]))
    return found


def _joined(points: Sequence[PointResults]) -> PointResults:
    """Return points at the same limits as one: a vendor's tool may describe them differently."""
    return points[0]._replace(good=[record for one in points for record in one.good])


def _without_limits(one: PointResults) -> tuple[object, ...]:
    facts = tuple(
        fact for fact in setup_of(one.any) if not any(f"{fact[0]}.".startswith(f"{name}.") for name in OF_LIMITS)
    )
    return one.system, one.point, facts, energy_source(one.any)


def _sweep(points: Sequence[tuple[Limits, PointResults]]) -> Sweep:
    # Without a limit of the clock, it may be highest of all.
    ordered = sorted(points, key=lambda one: (one[0].power_w or 0.0, one[0].clock_mhz or math.inf), reverse=True)
    _, full = ordered[0]
    return Sweep(
        [
            OperatingPoint(
                limits,
                one,
                _ratio(one, full, THROUGHPUT),
                _ratio(one, full, WORK),
                max((percent for record in one.good if (percent := limited_percent(record)) is not None), default=None),
            )
            for limits, one in ordered
        ]
    )


def _ratio(one: PointResults, full: PointResults, path: str) -> Estimate | None:
    if one is full:
        return exactly(1.0) if full.estimate(path) else None
    return one.over(full, path)


def limited_percent(record: Record) -> float | None:
    """Return the share of a run's windows in which the power limit bound, in percent; None if unknown."""
    percent: float | None = value_at(record, "energy.power_limited_percent")
    if percent is not None:
        return percent
    reasons = [(one.get("clocks") or {}).get("throttled") for one in value_at(record, "energy.channels") or []]
    known = [one.get("power limit", 0.0) for one in reasons if one is not None]
    return max(known, default=None)


def unsettled(one: PointResults) -> str:
    """Return how clock or temperature drifted within the windows of a point, as text; empty if they were steady."""
    drifts = (
        ("energy.clock_drift_percent", MAX_DRIFT_PERCENT, "the clock changed by {:+.1f} %"),
        ("energy.temperature_drift_c", MAX_DRIFT_C, "the temperature changed by {:+.0f} °C"),
    )
    words = []
    for path, most, sentence in drifts:
        known = [drift for record in one.good if (drift := value_at(record, path)) is not None]
        worst = max(known, key=abs, default=0.0)
        if abs(worst) > most:
            words.append(sentence.format(worst))
    return " and ".join(words)
