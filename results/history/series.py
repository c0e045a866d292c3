"""Series of measurements: one point of one system over time, in speed or in work per energy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from results.points.operating import limits_of
from results.points.repeats import Point, place_of, point_of, variant_of
from results.points.sensors import sensor_models, standard_uncertainty
from results.points.setups import LONGEST, UNKNOWN, machine_of, together, work_of
from results.record.parts import sensor_channels
from results.record.quantities import QUANTITIES
from results.record.records import Record
from results.record.values import epoch_s, grouped, value_at
from results.verdicts.quality import ESTIMATE, energy_kind

SECONDS_PER_DAY = 86_400
# A server's throughput is that of its load, if requests arrive at a rate: what each user gets is the speed then.
SPEED, PER_USER, EFFICIENCY = "speed", "speed per user", "efficiency"
FOLLOWED = {
    SPEED: QUANTITIES["work_per_s_per_device"],
    PER_USER: QUANTITIES["per_user"],
    EFFICIENCY: QUANTITIES["work_per_wh"],
}
CODE, KERNEL, NODE, SENSOR = "code", "kernel", "node", "energy sensor"
# Means of the devices' clocks over the windows, by name.
STATES = {"clock in MHz": "mean_mhz", "hottest in °C": "hottest_c"}
Timed = tuple[float, Record]  # days since 1970, and a run


class Observation(NamedTuple):
    """Runs of one day with one setup: repeats, whose spread is not that of runs on different days."""

    time_d: float  # days since 1970
    log: float  # logarithm of the geometric mean
    variance: float  # of it, by the runs' own uncertainty
    runs: tuple[Record, ...]
    facts: dict[str, str]  # software, firmware, node and settings by name

    @property
    def value(self) -> float:
        """Geometric mean of the runs."""
        return math.exp(self.log)

    @property
    def date(self) -> str:
        """Day of the first run, in UTC, such as 2026-03-09."""
        return datetime.fromtimestamp(self.time_d * SECONDS_PER_DAY, timezone.utc).date().isoformat()


class Series(NamedTuple):
    """Observations of one quantity of one point, in order of time; none if no run of the point was good."""

    system: str
    point: Point
    variant: tuple[str, ...]
    quantity: str
    unit: str
    kind: str  # grade and scope of an energy; empty for a speed
    observations: list[Observation]
    failed: int  # runs of the point that failed after its last good one

    @property
    def name(self) -> str:
        """System, point, options and quantity, as text."""
        options = f", {', '.join(self.variant)}" if self.variant else ""
        return f"{self.system}, {self.point}{options}, {self.quantity}"

    @property
    def data(self) -> dict[str, Any]:
        """Identity of the series, as data for JSON."""
        names = ("system", "variant", "quantity", "unit", "kind", "failed")
        return self.point._asdict() | {name: getattr(self, name) for name in names}


def time_d(created: str) -> float:
    """Return the days since 1970 of a time in ISO 8601, in UTC unless it has a zone; nan for another text."""
    time_s = epoch_s(created)
    return math.nan if time_s is None else time_s / SECONDS_PER_DAY


def series_of(records: Sequence[Record]) -> list[Series]:
    """Return the series of all points; estimated energies have none, and points without a good run have one of speed.

    Records have the time of their creation, as `database.read` returns them. Options that only some runs recorded do
    not separate them: a newer version of the suite may have more. A failed run is of each point with its options; one
    without a time, as in an archive, only counts for a point that was never good.
    """
    timed = [(time_d(one.file.created), one) for one in records]
    good = sorted((run for run in timed if run[1].is_good and not math.isnan(run[0])), key=lambda run: run[0])
    failures = grouped((run for run in timed if not run[1].is_good), lambda run: place_of(run[1]))
    found, joined = [], set[Record]()
    for options, runs in _same_work(good):
        first = runs[0][1]
        mine = [run for run in failures.get(place_of(first), []) if _agree(options, work_of(run[1]))]
        joined |= {run[1] for run in mine}
        failed = sum(time > runs[-1][0] for time, _ in mine)
        for quantity, one in FOLLOWED.items():
            measured = [run for run in runs if (value_at(run[1], one.path) or 0) > 0]
            kinds = grouped(measured, lambda run: energy_kind(run[1])) if quantity == EFFICIENCY else {"": measured}
            for kind, alike in kinds.items():
                if alike and not kind.startswith(ESTIMATE):
                    observations = _observations(alike, one.path, quantity == EFFICIENCY)
                    unit = one.of(first.work_unit).heading
                    found.append(Series(*identity_of(first), quantity, unit, kind, observations, failed))
    for runs in failures.values():
        if never_good := [run[1] for run in runs if run[1] not in joined]:
            bad = never_good[-1]
            unit = FOLLOWED[SPEED].of(bad.work_unit).heading
            found.append(Series(bad.system, point_of(bad), (), SPEED, unit, "", [], len(never_good)))
    return sorted(found, key=lambda one: (one.system, *one.point, one.variant, one.quantity, one.kind))


def identity_of(record: Record) -> tuple[str, Point, tuple[str, ...]]:
    """Return system, point and variant of a run; limits that were set for it belong to the variant."""
    is_set = record.energy is not None and any(one.limits.limits_set_by for one in record.energy.channels)
    return record.system, point_of(record), (*variant_of(record), *([str(limits_of(record))] if is_set else []))


def _same_work(runs: Iterable[Timed]) -> list[tuple[dict[str, str], list[Timed]]]:
    """Group runs of one system, point and variant whose options agree, in order of time, with all their options."""
    groups: dict[Any, list[tuple[dict[str, str], list[Timed]]]] = {}
    for run in runs:
        options = work_of(run[1])
        alike = groups.setdefault(identity_of(run[1]), [])
        for known, mine in alike:
            if _agree(known, options):
                known.update(options)
                mine.append(run)
                break
        else:
            alike.append((options, [run]))
    return [one for alike in groups.values() for one in alike]


def _agree(known: Mapping[str, str], options: Mapping[str, str]) -> bool:
    """Return whether no option has two values; one that is unknown has any."""
    return all(known.get(name, value) == value for name, value in options.items())


def _observations(runs: Sequence[Timed], path: str, of_energy: bool) -> list[Observation]:
    """Return one observation for each day and setup, in order of time.

    Runs on several nodes are one observation: their values share what the day brought.
    """
    days: dict[Any, list[Timed]] = {}
    for run in runs:
        facts = facts_of(run[1])
        facts.pop(NODE, None)
        days.setdefault((math.floor(run[0]), tuple(sorted(facts.items()))), []).append(run)
    found = []
    for mine in days.values():
        logs = [math.log(value_at(record, path)) for _, record in mine]
        own = [standard_uncertainty(record) ** 2 if of_energy else 0.0 for _, record in mine]
        variance = max(statistics.fmean(own), statistics.variance(logs) if len(logs) > 1 else 0.0) / len(logs)
        alike = tuple(record for _, record in mine)
        found.append(Observation(mine[0][0], statistics.fmean(logs), variance, alike, together(map(facts_of, alike))))
    return sorted(found, key=lambda one: one.time_d)


def facts_of(record: Record) -> dict[str, str]:
    """Return what a change of speed may come from, by name: software, firmware, settings, sensor and node."""
    paths = {CODE: "provenance.git_commit", KERNEL: "provenance.kernel", NODE: "provenance.hostname"}
    named = {name: value_at(record, path) for name, path in paths.items()}
    sensors = " and ".join(sorted({source for source, _ in sensor_models(record)}))
    return machine_of(record) | {name: str(value) for name, value in named.items() if value} | {SENSOR: sensors}


def changed_facts(before: Observation, after: Observation) -> list[str]:
    """Return which facts differ between two observations, as text such as `driver_version 570 → 580`."""
    names = sorted(name for name in {*before.facts, *after.facts} if before.facts.get(name) != after.facts.get(name))
    pairs = ([one.facts.get(name, UNKNOWN)[:LONGEST] for one in (before, after)] for name in names)
    return [f"{name} {' → '.join(pair)}" for name, pair in zip(names, pairs, strict=True)]


def states_of(observations: Sequence[Observation]) -> dict[str, float]:
    """Return the mean clock and temperature of the devices over some observations; omits what no run recorded."""
    clocks = [channel.clocks for one in observations for record in one.runs for channel in sensor_channels(record)]
    known = {name: [value for one in clocks if (value := one.number(key))] for name, key in STATES.items()}
    return {name: statistics.fmean(values) for name, values in known.items() if values}
