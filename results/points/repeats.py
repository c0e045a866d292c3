"""Repeats of one point, summarised as one number with its uncertainty."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from jpwr.intervals import BOUND, NORMAL_95
from record.derivation import ENERGIES, limits_of_all
from record.findings import Finding, finding
from record.model import Energy
from record.values import grouped, value_at
from results.find.records import Record
from results.points.estimate import Estimate, Interval, Part, of_runs, trimmed_mean
from results.points.facts import Point, as_key, differences, facts_of, sort_key
from results.points.judged import job_of, why_wrong

# Criteria for steps that are not in steady state.
FEWEST_STEPS = 12  # with fewer, a shift may be chance
SHIFT = 0.03  # relative change of the median step time
SHIFT_P_VALUE = 0.005  # just above the smallest p-value that 4 of 12 steps can reach
OUTLIER = 1.5  # times the median step time
OUTLIER_COST = 0.01  # of the time of all steps
# MLPerf's training rules: of the runs to a loss, the fastest and the slowest are left out, and one may miss the loss.
TO_LOSS = "_to_loss"  # in the path of a value that a training took to its loss
FEWEST_TRIMMED = 3  # runs: with fewer, none is left out
MOST_MISSED = 1


class OperatingLimits(NamedTuple):
    """Limits of each device in watts and MHz; None: not known, or devices have different ones."""

    power_w: float | None
    clock_mhz: float | None

    def __str__(self) -> str:
        known = [f"{value:g} {unit}" for value, unit in zip(self, ("W", "MHz"), strict=True) if value]
        return ", ".join(known) or "no known limit"

    def are(self, *wanted: float | None) -> bool:
        """Return whether they are a power limit in watts and a clock limit in MHz, of which None names none."""
        return all(name in (None, limit) for name, limit in zip(wanted, self, strict=True))


class PointResults(NamedTuple):
    """All runs of one point on one system, with the same options."""

    system: str
    point: Point
    variant: tuple[str, ...]  # other choices, as text; empty if no run recorded them
    good: list[Record]
    bad: list[Record]

    @property
    def any(self) -> Record:
        """One of the records, a good one if there is any."""
        return (self.good or self.bad)[0]

    @property
    def limits(self) -> OperatingLimits:
        """Limits of the devices; no power limit if that varied."""
        limits = limits_of_all(self.any.sensor_channels)
        return OperatingLimits(limits["power_limit_w"], limits["clock_limit_mhz"])

    @property
    def missed(self) -> int:
        """Number of runs to a loss that did not reach it: one that was ended before its end counts, too."""
        tried = (one.metrics for one in self.bad if one.status != "out_of_memory") if self.point.to_loss else ()
        return sum(one.number("time_to_loss_s") is None for one in tried)

    @property
    def may_miss(self) -> int:
        """Most runs that may miss their target: the slowest, where it is left out."""
        return MOST_MISSED if len(self.good) + self.missed >= FEWEST_TRIMMED else 0

    @property
    def wrong(self) -> Finding | None:
        """Why its good runs keep the point from being ranked; None if they do not."""
        return why_wrong(self.good, self.bad)

    @property
    def precision(self) -> str:
        """Precision of the training; speeds in different precisions are not ranked together."""
        return self.any.precision

    @property
    def is_comparable(self) -> bool:
        """Whether the point runs the full workload of the comparison, and not a smaller one."""
        return self.any.metrics.comparable is not False

    def values(self, path: str) -> list[float]:
        """Return the value of each good run; empty unless all have it, an energy of one kind, a loss that counts."""
        if TO_LOSS in path and self.missed > self.may_miss:
            return []
        if len({energy and energy.power_source for energy in self._energies(path)}) > 1:
            return []
        values = [value_at(record, path) for record in self.good]
        return [float(value) for value in values] if all(isinstance(value, int | float) for value in values) else []

    def value(self, path: str) -> float | None:
        """Return the median of the values of the good runs, or their trimmed mean to a loss; None without any."""
        if TO_LOSS in path:
            return estimate.value if (estimate := self.estimate(path)) else None
        return statistics.median(values) if (values := self.values(path)) else None

    def estimate(self, path: str, with_accuracy: bool = False) -> Estimate | None:
        """Return a value of the good runs; an energy's uncertainty includes its sensor's. None unless all are > 0.

        Of values to a loss, the smallest and the largest are left out; a run that missed the loss has the largest.
        """
        values = self.values(path)
        if not values or min(values) <= 0:
            return None
        shared = self.sensor_parts(path, with_accuracy)
        if TO_LOSS not in path:
            return of_runs(values, shared)
        values += [math.inf] * self.missed
        at_each_end = int(len(values) >= FEWEST_TRIMMED)
        return trimmed_mean(values, at_each_end, at_each_end, shared)

    def sensor_parts(self, path: str, with_accuracy: bool = False) -> list[Part]:
        """Return the components of an energy value's uncertainty that all runs share; none for any other value.

        The accuracy of a sensor is that of its model: all points with the model share it.
        """
        energies = list(filter(None, self._energies(path)))
        if not energies:
            return []
        parts = [Part(max(map(_sampling_error, energies)))]
        if with_accuracy:
            sign = -1 if path.endswith(("_per_wh", "_per_j", "_per_kw")) else 1
            accuracy = max(energy.accuracy or 0.0 for energy in energies)
            parts.append(Part(sign * accuracy / BOUND, source=self.sensors(path)))
        return parts

    def _energies(self, path: str) -> list[Energy | None]:
        """Return the energy of each good run that a value comes from; empty for a value from none."""
        key = path.partition(".")[0]
        return [record.energies.get(key) for record in self.good] if key in ENERGIES else []

    def over(self, other: PointResults, path: str, with_accuracy: bool = True) -> Estimate | None:
        """Return the ratio of a value to another point's; None if either has none.

        The accuracy of the sensors counts where their models differ.
        """
        ours, theirs = (point.estimate(path, with_accuracy) for point in (self, other))
        return ours / theirs if ours and theirs else None

    def sensors(self, path: str) -> frozenset[tuple[str, str]]:
        """Return the sensors, with their devices, of the energy that a value comes from; empty for any other value.

        Runs with the same models of both share the error of the sensor.
        """
        return frozenset(
            (source, name)
            for record, energy in zip(self.good, self._energies(path), strict=False)
            if energy
            for source in {str(channel.source) for channel in energy.channels}
            for name in {str(device.name) for device in record.devices}
        )

    def own_interval(self, path: str) -> Interval:
        """Return what holds the intervals of a latency in each run; its end is infinite if one does not bound it."""
        lows, highs = (self.values(f"{path.removesuffix('_s')}_{end}_s") for end in ("low", "high"))
        return Interval(min(lows, default=0.0), max(highs, default=math.inf))

    @property
    def keeps_limits(self) -> bool | None:
        """Whether the 99th percentiles of all runs of a server keep their limits of TTFT and TPOT; None without any.

        Each with its interval, if that is bounded.
        """
        kept = []
        for name in ("ttft", "tpot"):
            path = f"metrics.{name}_p99_s"
            limit_s, values_s = self.any.metrics.number(f"slo_{name}_s"), self.values(path)
            if not (limit_s and values_s):
                return None
            high_s = self.own_interval(path).high
            kept.append(max([*values_s, *([high_s] if math.isfinite(high_s) else [])]) <= limit_s)
        return all(kept)


def _sampling_error(energy: Energy) -> float:
    """Return the relative standard uncertainty by sampling and counter; 0 if the record states none.

    Without its components, the uncertainty is a bound.
    """
    random_wh, systematic_wh = energy.random_wh, energy.systematic_wh
    if random_wh is None or systematic_wh is None:
        random_wh, systematic_wh = 0.0, energy.uncertainty_wh or 0.0
    return math.hypot(random_wh / NORMAL_95, systematic_wh / BOUND) / energy.energy_wh if energy.energy_wh else 0.0


def by_point(records: Sequence[Record]) -> list[PointResults]:
    """Group the repeats of each point, in the order of tables.

    Runs that differ in options, software, driver or power limit are not repeats: their variants have the differences. A
    failed run joins the runs with its options. Without recorded options it joins the runs of its job, or the only point
    at its place, and is a point of its own if there are several.
    """
    ordered = sorted(records, key=sort_key)
    points = []
    good = grouped((record for record in ordered if record.is_good), lambda record: facts_of(record)[:3])
    for (system, point, choices), records_of_point in good.items():
        groups = grouped(records_of_point, lambda record: facts_of(record).setup)
        for runs, differs in zip(groups.values(), differences(list(groups)), strict=True):
            points.append(PointResults(system, point, (*choices, *differs), runs, []))
    at_place = grouped(points, lambda results: _place(results.any))
    failed: dict[Any, PointResults] = {}
    for record in ordered:
        if not record.is_good:
            place, facts = _place(record), facts_of(record)
            alike = _alike(record, at_place.get(place, []))
            if len(alike) != 1:
                key = place, as_key(facts.options), record.precision
                alike = [failed.setdefault(key, PointResults(*facts[:3], [], []))]
            alike[0].bad.append(record)
    return sorted([*points, *failed.values()], key=lambda results: sort_key(results.any))


def _place(record: Record) -> tuple[str, Point]:
    """Return where in a sweep a run is, as a run that failed also states it."""
    facts = facts_of(record)
    return facts.system, facts.point._replace(data="", sample="", to_loss=0.0)


def _alike(record: Record, points: Sequence[PointResults]) -> list[PointResults]:
    """Return the points at the place of a failed run that it may be a repeat of."""
    facts, job = facts_of(record), job_of(record)[0]
    alike = [one for one in points if record.precision in ("", one.precision)]
    alike = [one for one in alike if not facts.options or facts_of(one.any).options == facts.options]
    alike = [one for one in alike if facts_of(one.any).setup == facts.setup] or alike
    return [one for one in alike if job and any(job_of(run)[0] == job for run in one.good)] or alike


def unsteady(step_times_s: Sequence[float | None]) -> list[Finding]:
    """Return why the steps of a run are not in steady state, or too few to check it; empty if they are.

    A shift is a change of the median by more than SHIFT, from before to after a third, a half or two thirds of the
    steps, that chance does not explain (Mann and Whitney's test, at SHIFT_P_VALUE each). Outliers are steps of more
    than OUTLIER medians that cost more than OUTLIER_COST of the time.
    """
    times_s = [time_s for time_s in step_times_s if time_s]
    is_short = len(times_s) < FEWEST_STEPS
    found = [] if is_short else _shifts(times_s)
    median = statistics.median(times_s) if times_s else 0.0
    slow = [time_s for time_s in times_s if time_s > OUTLIER * median]
    cost = math.fsum(time_s - median for time_s in slow) / math.fsum(times_s) if slow else 0.0
    if cost > OUTLIER_COST:
        found.append(finding("outliers", slow=len(slow), steps=len(times_s), cost=cost))
    return [*found, finding("few_steps", steps=len(times_s), wanted=FEWEST_STEPS)] if is_short else found


def _shifts(times_s: Sequence[float]) -> list[Finding]:
    """Return the largest change of the median that chance does not explain."""
    steps, changes = len(times_s), []
    for first in (steps // 3, steps // 2, steps - steps // 3):
        change = statistics.median(times_s[first:]) / statistics.median(times_s[:first]) - 1
        if abs(change) > SHIFT:
            changes.append((change, first))
    for change, first in sorted(changes, key=lambda each: -abs(each[0])):
        from scipy import stats

        if stats.mannwhitneyu(times_s[:first], times_s[first:]).pvalue < SHIFT_P_VALUE:
            return [finding("shift", change=change, first=first, steps=steps)]
    return []
