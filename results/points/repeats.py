"""Repeats of one point, summarised as one number with its uncertainty."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from record.findings import Finding, finding
from record.values import devices_text, energy_source, grouped, sort_key, value_at
from results.files.workloads import batch_text, short_batch_text
from results.find.records import Record
from results.points.estimate import Estimate, Interval, Part, of_runs, trimmed_mean
from results.points.judged import job_of, why_wrong
from results.points.sensors import accuracy_error, sampling_error, sensor_models
from results.points.setups import differences, options_of, setup_of

# Criteria for steps that are not in steady state.
FEWEST_STEPS = 12  # with fewer, a trend may be chance
TREND = 0.03  # relative change of the median step time
SHIFT_P_VALUE = 0.005  # just above the smallest p-value that 4 of 12 steps can reach
OUTLIER = 1.5  # times the median step time
OUTLIER_COST = 0.01  # of the time of all steps
LAYOUT = (
    ("TP", "tensor_parallel_size"),
    ("PP", "pipeline_parallel_size"),
    ("CP", "context_parallel_size"),
    ("EP", "expert_parallel_size"),
)
ENERGIES = ("energy", "energy_effective")
# MLPerf's training rules: of the runs to a loss, the fastest and the slowest are left out, and one may miss the loss.
TO_LOSS = "_to_loss"  # in the path of a value that a training took to its loss
FEWEST_TRIMMED = 3  # runs: with fewer, none is left out
MOST_MISSED = 1


class Point(NamedTuple):
    """Workload and size of a measurement: equal for repeats, and for two systems that are compared."""

    benchmark: str
    model: str
    data: str
    sample: str  # its size, such as 2048 tokens
    devices: int
    global_batch: int
    copies: int = 0  # that ran at once to fill the nodes; 0: an ordinary run
    to_loss: float = 0.0  # target of a training to a loss; 0: an ordinary run

    def __str__(self) -> str:
        where = f"{devices_text(self.devices)}, {batch_text(self.benchmark, self.global_batch)}{self._kind}"
        return ", ".join(filter(None, (self.benchmark, self.model, self.data, self.sample, where)))

    @property
    def place(self) -> str:
        """Position of the point in a sweep, as text."""
        return f"{devices_text(self.devices)}, {self.batch}{self._kind}"

    @property
    def batch(self) -> str:
        """Size of the batch in few words."""
        return short_batch_text(self.benchmark, self.global_batch)

    @property
    def _kind(self) -> str:
        if self.to_loss:
            return f", to loss {self.to_loss:g}"
        return f", {self.copies} {'copy' if self.copies == 1 else 'copies'}" if self.copies else ""


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

    def values(self, path: str) -> list[float]:
        """Return the value of each good run; empty unless all have it, an energy of one kind, a loss that counts."""
        if TO_LOSS in path and self.missed > self.may_miss:
            return []
        if (energy := energy_of_path(path)) and len({energy_source(record, energy) for record in self.good}) > 1:
            return []
        values = [value_at(record, path) for record in self.good]
        return [float(one) for one in values] if all(isinstance(one, int | float) for one in values) else []

    def value(self, path: str) -> float | None:
        """Return the median of the values of the good runs, or as `_to_loss` does; None without any."""
        if not (values := self.values(path)):
            return None
        return self._to_loss(values).value if TO_LOSS in path else statistics.median(values)

    def half_width(self, path: str) -> float | None:
        """Return the half-width of the interval of a value over the runs, without its sensor; None for a single run."""
        values = self.values(path)
        if not values or min(values) <= 0:
            return None
        interval = self._combined(path, values).interval
        return interval.half if interval else None

    def estimate(self, path: str, with_accuracy: bool = False) -> Estimate | None:
        """Return a value of the good runs; an energy's uncertainty includes its sensor's. None unless all are > 0."""
        values = self.values(path)
        if not values or min(values) <= 0:
            return None
        return self._combined(path, values, self.sensor_parts(path, with_accuracy))

    def _combined(self, path: str, values: Sequence[float], shared: Sequence[Part] = ()) -> Estimate:
        return (self._to_loss if TO_LOSS in path else of_runs)(values, shared)

    def _to_loss(self, values: Sequence[float], shared: Sequence[Part] = ()) -> Estimate:
        """Return the mean of values to a loss, of enough without the smallest and the largest; shared: as `of_runs`.

        A run that missed the loss has the largest.
        """
        every = [*values, *[math.inf] * self.missed]
        one = int(len(every) >= FEWEST_TRIMMED)
        return trimmed_mean(every, one, one, shared)

    def sensor_parts(self, path: str, with_accuracy: bool = False) -> list[Part]:
        """Return the components of an energy value's uncertainty that all runs share; none for any other value.

        The accuracy of a sensor is that of its model: all points with the model share it.
        """
        energy = energy_of_path(path)
        if not energy:
            return []
        parts = [Part(max(sampling_error(record, energy) for record in self.good))]
        if with_accuracy:
            sign = -1 if path.endswith(("_per_wh", "_per_kw")) else 1
            accuracy = max(accuracy_error(record, energy) for record in self.good)
            parts.append(Part(sign * accuracy, source=self.sensors(path)))
        return parts

    def over(self, other: PointResults, path: str, with_accuracy: bool = True) -> Estimate | None:
        """Return the ratio of a value to another point's; None if either has none.

        The accuracy of the sensors counts where their models differ.
        """
        ours, theirs = (point.estimate(path, with_accuracy) for point in (self, other))
        return ours / theirs if ours and theirs else None

    def sensors(self, path: str) -> frozenset[tuple[str, str]]:
        """Return the sensor models of the energy that a value comes from; empty for any other value."""
        energy = energy_of_path(path)
        return frozenset().union(*(sensor_models(one, energy) for one in self.good)) if energy else frozenset()

    @property
    def precision(self) -> str:
        """Precision of the training; speeds in different precisions are not ranked together."""
        return self.any.precision

    def own_interval(self, path: str) -> Interval:
        """Return what holds the intervals of a latency in each run; its end is infinite if one does not bound it."""
        lows, highs = (self.values(f"{path.removesuffix('_s')}_{end}_s") for end in ("low", "high"))
        return Interval(min(lows, default=0.0), max(highs, default=math.inf))

    @property
    def keeps_limits(self) -> bool | None:
        """Whether the 99th percentiles of all runs of a server keep their limits of TTFT and TPOT; None without any.

        Each with its interval, if that is bounded.
        """
        found = []
        for name in ("ttft", "tpot"):
            path = f"metrics.{name}_p99_s"
            limit_s, values_s = value_at(self.any, f"metrics.slo_{name}_s"), self.values(path)
            high_s = self.own_interval(path).high
            most_s = max([*values_s, *([high_s] if math.isfinite(high_s) else [])], default=None)
            found.append(most_s <= limit_s if limit_s and most_s is not None else None)
        return None if None in found else all(found)

    @property
    def is_comparable(self) -> bool:
        """Whether the point runs the full workload of the comparison, and not a smaller one."""
        return value_at(self.any, "metrics.comparable") is not False


def energy_of_path(path: str) -> str:
    """Return the energy of a record that a value comes from; empty for a value from none."""
    energy = path.partition(".")[0]
    return energy if energy in ENERGIES else ""


def by_point(records: Sequence[Record]) -> list[PointResults]:
    """Group the repeats of each point, in the order of tables.

    Runs that differ in options, software, driver or power limit are not repeats: their variants have the differences. A
    failed run joins the runs with its options. Without recorded options it joins the runs of its job, or the only point
    at its place, and is a point of its own if there are several.
    """
    ordered = sorted(records, key=sort_key)
    good = (record for record in ordered if record.is_good)
    made = grouped(good, lambda record: (record.system, point_of(record), variant_of(record)))
    points = []
    for (system, point, variant), records_of_point in made.items():
        groups = grouped(records_of_point, setup_of)
        for runs, differs in zip(groups.values(), differences(list(groups)), strict=True):
            points.append(PointResults(system, point, (*variant, *differs), runs, []))
    failed: dict[tuple[Any, ...], PointResults] = {}
    for record in ordered:
        if not record.is_good:
            options, precision = options_of(record), record.precision
            ran = [one for one in points if place_of(one.any) == place_of(record)]
            ran = [one for one in ran if not precision or one.precision == precision]
            alike = [one for one in ran if not options or options_of(one.any) == options]
            alike = [one for one in alike if setup_of(one.any) == setup_of(record)] or alike
            job = job_of(record)[0]
            alike = [one for one in alike if job and any(job_of(run)[0] == job for run in one.good)] or alike
            if len(alike) == 1:
                alike[0].bad.append(record)
            else:
                results = PointResults(record.system, point_of(record), variant_of(record), [], [])
                failed.setdefault((*place_of(record), options, precision), results).bad.append(record)
    return sorted([*points, *failed.values()], key=lambda results: sort_key(results.any))


def variant_of(record: Record, micro_batch: bool = True) -> tuple[str, ...]:
    """Return the choices in which two runs of one point can differ, as text; `micro_batch` includes the micro batch."""
    layout, micro = record.layout, record.layout.micro_batch_size
    parallel = [f"{name}{size:.0f}" for name, key in LAYOUT if (size := layout.number(key) or 1) > 1]
    batch = f"micro batch {micro}" if micro and micro_batch else ""
    return tuple(filter(None, [record.precision, batch, *parallel, *record.variant]))


def place_of(record: Record) -> tuple[Any, ...]:
    """Return where in a sweep a run is, as a run that failed also states it."""
    place = record.layout.num_devices, record.layout.global_batch_size, record.fill and record.fill.copies
    return record.system, record.benchmark, record.model, *place


def _trend(times_s: Sequence[float]) -> list[Finding]:
    from scipy import stats

    third = len(times_s) // 3
    change = _change(times_s[:third], times_s[-third:])
    is_significant = abs(change) > TREND and stats.kendalltau(range(len(times_s)), times_s).pvalue < 0.01
    return [finding("trend", change=change)] if is_significant else []


def _shift(times_s: Sequence[float]) -> list[Finding]:
    from scipy import stats

    third = len(times_s) // 3
    shifts = {}
    for at in (third, len(times_s) // 2, len(times_s) - third):
        change = _change(times_s[:at], times_s[at:])
        if abs(change) > TREND and stats.mannwhitneyu(times_s[:at], times_s[at:]).pvalue < SHIFT_P_VALUE:
            shifts[at] = change
    at = max(shifts, key=lambda at: abs(shifts[at]), default=0)
    return [finding("shift", change=shifts[at], first=at, steps=len(times_s))] if shifts else []


def _change(before: Sequence[float], after: Sequence[float]) -> float:
    return statistics.median(after) / statistics.median(before) - 1


def step_times_s(record: Record) -> list[float]:
    """Return the known times of the measured steps, in seconds."""
    return [time_s for time_s in record.step_times_s if time_s]


def unsteady(times_s: Sequence[float]) -> list[Finding]:
    """Return why a run's steps are not in steady state, or too few to check it; empty if they are."""
    found = disturbances(times_s)
    if len(times_s) < FEWEST_STEPS:
        found.append(finding("few_steps", steps=len(times_s), wanted=FEWEST_STEPS))
    return found


def disturbances(times_s: Sequence[float]) -> list[Finding]:
    """Return the disturbances of the steps of a run.

    A trend is a change of the median from the first third to the last of more than TREND that chance does not explain
    (Kendall's test of rank against order, at 1 %), or one from before to after a third, a half or two thirds of the
    steps (Mann and Whitney's test, at SHIFT_P_VALUE each). Outliers are steps of more than OUTLIER medians that cost
    more than OUTLIER_COST of the time.
    """
    found = []
    if len(times_s) >= FEWEST_STEPS:
        found += _trend(times_s) or _shift(times_s)
    median = statistics.median(times_s) if times_s else 0.0
    slow = [time_s for time_s in times_s if time_s > OUTLIER * median]
    cost = math.fsum(time_s - median for time_s in slow) / math.fsum(times_s) if slow else 0.0
    if cost > OUTLIER_COST:
        found.append(finding("outliers", slow=len(slow), steps=len(times_s), cost=cost))
    return found


def point_of(record: Record) -> Point:
    """Return the point that a record is a repeat of."""
    return Point(
        record.benchmark,
        record.model,
        record.data,
        record.sample,
        record.layout.num_devices or 0,
        record.layout.global_batch_size or 0,
        record.fill.copies if record.fill else 0,
        record.option("window.to_loss") or 0.0,
    )
