"""Goodput of training: the share of useful time, from measured times of steps and checkpoints and stated failures."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from jpwr.energy.estimate import JOULES_PER_WH
from results.files.typed_files import Above0, From1, NotNegative
from results.points.estimate import Estimate, between
from results.points.goodput import JobTimes
from results.points.repeats import PointResults
from results.record.derived import mean_power_w
from results.record.findings import Finding, finding
from results.record.quantities import QUANTITIES
from results.record.records import RecordError
from results.record.values import count, devices_text, rounded, value_at

S_PER_H, S_PER_DAY = 3600.0, 86400.0
AVG_POWER, RESTORE_WH = "energy.avg_power_w", "energy.checkpoint_restore_wh"


@dataclass(frozen=True)
class Failures:
    """Failures of a training job, as the buyer states them."""

    mttf_h: Annotated[Above0, "mean time between failures of one device, with its share of node and network"]
    restart_s: Annotated[NotNegative, "from a failure until the job reads its last checkpoint"]
    mttf_h_low: Annotated[Above0 | None, "with it or mttf_h_high, the interval covers this range"] = None
    mttf_h_high: Above0 | None = None
    devices: Annotated[From1 | None, "of the job; without it those of the run"] = None
    interval_s: Annotated[Above0 | None, "work between two checkpoints; without it the best"] = None

    def check(self, where: str) -> None:
        """Raise RecordError unless the range is in ascending order."""
        if not self.range_h[0] <= self.mttf_h <= self.range_h[1]:
            found = f"mttf_h_low, mttf_h and mttf_h_high are {self.mttf_h_low}, {self.mttf_h:g}, {self.mttf_h_high}"
            raise RecordError(f"{where}: {found}: give them in ascending order")

    @property
    def range_h(self) -> tuple[float, float]:
        """Lowest and highest mean time between failures of one device, in hours."""
        return self.mttf_h_low or self.mttf_h, self.mttf_h_high or self.mttf_h

    @property
    def words(self) -> str:
        """The assumptions as text."""
        ends = " ({:,g} to {:,g})".format(*self.range_h) if len({*self.range_h}) > 1 else ""
        words = [f"a device fails every {self.mttf_h:,g} h{ends}", f"{self.restart_s:g} s to restart"]
        words += [f"a job on {devices_text(self.devices)}"] if self.devices else []
        return ", ".join([*words, *([f"a checkpoint every {self.interval_s:g} s"] if self.interval_s else [])])


class Goodput(NamedTuple):
    """Useful time and lost energy of a job with this much work between two checkpoints."""

    interval_s: float
    steps: int
    useful: Estimate  # share
    failure_wh: Estimate | None  # energy that a failure costs; None without a power
    wh_per_day: Estimate | None
    doubts: tuple[Finding, ...]

    @property
    def words(self) -> str:
        """The interval between checkpoints as text."""
        return f"a checkpoint every {count(self.steps, 'step')} ({rounded(self.interval_s)} s)"


class _Job(NamedTuple):
    """Times of a job: by medians and the stated failures, and by the ends of their ranges."""

    middle: JobTimes
    ends: list[JobTimes]
    has_spread: bool  # whether checkpoints were repeated

    def estimate(self, value: Callable[[JobTimes], float]) -> Estimate:
        """Return a value with the range of it; without repeats there is no interval."""
        values = [value(one) for one in self.ends]
        found = between(value(self.middle), min(values), max(values))
        return found if self.has_spread else found._replace(parts=None)


def goodput_of(one: PointResults, failures: Failures) -> Goodput | Finding:
    """Return the goodput of a job that trains as a point did, or why there is none."""
    job, devices = _job(one, failures), failures.devices or one.point.devices
    step_s = one.value(QUANTITIES["step_median_s"].path)
    if not (job and step_s):
        return finding("no_checkpoint")
    steps = max(1, round(failures.interval_s / step_s)) if failures.interval_s else job.middle.best_steps(step_s)
    work_s = steps * step_s
    if work_s < job.middle.delay_s:
        return finding("interval_too_short", interval_s=work_s, delay_s=job.middle.delay_s)
    useful = job.estimate(lambda times: times.useful(work_s))
    failure_wh, wh_per_day = _energies_wh(one, job, work_s, devices)
    return Goodput(work_s, steps, useful, failure_wh, wh_per_day, tuple(_doubts(one, devices)))


def _energies_wh(one: PointResults, job: _Job, work_s: float, devices: int) -> tuple[Estimate | None, Estimate | None]:
    """Return the energies of a failure and of a day's failures; a restart is taken to need the power of training."""
    power_w = one.estimate(AVG_POWER, with_accuracy=True)
    if not power_w:
        return None, None
    restore_w = mean_power_w(one.value(RESTORE_WH), job.middle.restore_s)
    less = 1 - restore_w / power_w.value if restore_w else 0.0

    def at_full_power_s(times: JobTimes) -> float:
        return times.failure_s(work_s) - less * times.reading_s

    of_job = power_w * (devices / one.point.devices / JOULES_PER_WH)
    per_day = job.estimate(lambda times: at_full_power_s(times) * S_PER_DAY / times.mean_s)
    return of_job * job.estimate(at_full_power_s), of_job * per_day


def _job(one: PointResults, failures: Failures) -> _Job | None:
    """Return the times of a job; None unless all runs wrote and restored a checkpoint."""
    writes, restores, pauses = (_range_s(one, name) for name in ("write", "restore", "pause"))
    if not (writes and restores and pauses):
        return None
    devices = failures.devices or one.point.devices

    def times(mttf_h: float, write_s: float, restore_s: float) -> JobTimes:
        pause_s = max(0.0, pauses[1]) if one.value("metrics.checkpoint_async") else write_s
        return JobTimes(mttf_h * S_PER_H / devices, failures.restart_s, restore_s, pause_s, max(0.0, write_s - pause_s))

    measured = list(zip(writes, restores, strict=True))
    ends = [times(mttf_h, *at) for mttf_h, at in itertools.product(failures.range_h, (measured[0], measured[2]))]
    return _Job(times(failures.mttf_h, *measured[1]), ends, sum(one.values("metrics.checkpoint_rounds")) > 1)


def _range_s(one: PointResults, what: str) -> tuple[float, float, float] | None:
    """Return the least, the median and the largest time of the checkpoints of all runs; None if a run has none."""
    least, middle, most = (
        one.values(f"metrics.checkpoint_{what}_{end}s|metrics.checkpoint_{what}_s") for end in ("least_", "", "most_")
    )
    return (min(least), statistics.median(middle), max(most)) if middle else None


def _doubts(one: PointResults, devices: int) -> Iterator[Finding]:
    if devices != one.point.devices:
        yield finding("checkpoint_scaled", measured=one.point.devices, devices=devices)
    if not all(value_at(record, "metrics.checkpoint_cold") for record in one.good):
        yield finding("checkpoint_warm")
