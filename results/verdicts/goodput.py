"""Goodput of training: the share of useful time, from measured times of steps and checkpoints and stated failures.

Daly 2006 (doi:10.1016/j.future.2004.11.016), equation 20: failures are a Poisson process that also strikes while a
checkpoint is written or read.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from jpwr.energy.estimate import JOULES_PER_WH
from jpwr.intervals import NORMAL_95
from results.files.typed_files import Above0, From1, NotNegative
from results.points.estimate import Estimate, inexactly
from results.points.repeats import PointResults
from results.record.derived import mean_power_w
from results.record.findings import Finding, finding
from results.record.quantities import QUANTITIES
from results.record.records import RecordError
from results.record.values import devices_text, value_at

S_PER_H, S_PER_DAY = 3600.0, 86400.0
LEAST_SHARE = 1e-6  # useful time of a job that hardly ever gets to a checkpoint: half a minute in a year


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
        return ", ".join([*words, f"a checkpoint every {self.interval_s:g} s"] if self.interval_s else words)


class JobTimes(NamedTuple):
    """Times of a job, in seconds, that saves its state after each interval of work and restarts from it."""

    mean_s: float  # between failures of the job
    restart_s: float  # from a failure until the job reads its last checkpoint
    restore_s: float  # until it trains again
    pause_s: float  # that training loses for each checkpoint
    delay_s: float = 0.0  # from the end of the pause until the checkpoint is complete, if it is written meanwhile

    def useful(self, work_s: float) -> float:
        """Return the expected share of time that is useful, with this much work between checkpoints.

        An interval takes M exp(R / M) (exp((t + p) / M) - 1), for the work t, the pause p, the mean time M between
        failures and the time R until the job trains again. The delay adds to R: each failure loses as much more.
        """
        lost, cycle = self.restart_s + self.restore_s + self.delay_s, work_s + self.pause_s
        share = work_s / self.mean_s * math.exp(-(lost + cycle) / self.mean_s) / -math.expm1(-cycle / self.mean_s)
        return max(share, LEAST_SHARE)

    @property
    def best_s(self) -> float:
        """Work between checkpoints with the largest useful share.

        The derivative of the share is 0 where t / M = 1 - exp(-(t + p) / M), which Lambert's W solves. If failures are
        rare, it is Young's sqrt(2 M p) (1974, doi:10.1145/361147.361115).
        """
        from scipy.special import lambertw

        above = math.nextafter(-1 / math.e, 0)  # at -1/e, which is that without a pause, there is no number
        return self.mean_s * (1 + float(lambertw(max(above, -math.exp(-1 - self.pause_s / self.mean_s))).real))

    def steps(self, step_s: float, work_s: float | None = None) -> int:
        """Return the steps between checkpoints, as stated or the best; one is complete before the next begins."""
        least, near = max(1, math.ceil(self.delay_s / step_s)), math.floor(self.best_s / step_s)
        if work_s:
            return max(least, round(work_s / step_s))
        return max(max(least, near), max(least, near + 1), key=lambda steps: self.useful(steps * step_s))

    def failure_s(self, work_s: float) -> float:
        """Return the expected time that a failure costs: lost work, restart and restore."""
        return self.mean_s * (1 - self.useful(work_s) * (work_s + self.pause_s) / work_s)

    @property
    def reading_s(self) -> float:
        """Expected time per failure in which the job reads its checkpoint: a failure may cut it, or come before it."""
        begin, end = (math.exp(-after_s / self.mean_s) for after_s in (self.restart_s, self.restart_s + self.restore_s))
        return self.mean_s * (begin - end)


class Goodput(NamedTuple):
    """Useful time and lost energy of a job with so many steps between two checkpoints."""

    interval_s: float
    steps: int
    useful: Estimate  # share
    failure_wh: Estimate | None  # energy that a failure costs; None without a power
    wh_per_day: Estimate | None
    doubts: Sequence[Finding]


def goodput_of(one: PointResults, failures: Failures) -> Goodput | None:
    """Return the goodput of a job that trains as a point did; None unless all its runs have times of checkpoints."""
    devices, step_s = failures.devices or one.point.devices, one.value(QUANTITIES["step_median_s"].path)
    jobs = list(_jobs(one, failures, devices))
    if not (jobs and step_s):
        return None
    steps = jobs[0].steps(step_s, failures.interval_s)
    work_s, is_repeated = steps * step_s, sum(one.values("metrics.checkpoint_rounds")) > 1

    def estimate(value: Callable[[JobTimes], float]) -> Estimate:
        middle, *ends = map(value, jobs)
        low, high = min(ends), max(ends)
        found = inexactly(math.sqrt(low * high), math.log(high / low) / 2 / NORMAL_95)
        return Estimate(middle, found.log, found.parts if is_repeated else None)

    # A restart is taken to need the power of training; a restore has an energy of its own.
    power_w = one.estimate("energy.avg_power_w", with_accuracy=True)
    restore_w = mean_power_w(one.value("energy.checkpoint_restore_wh"), jobs[0].restore_s)
    less = 1 - restore_w / power_w.value if restore_w and power_w else 0.0

    def energy(failures: Callable[[JobTimes], float]) -> Estimate | None:
        lost_s = estimate(lambda job: failures(job) * (job.failure_s(work_s) - less * job.reading_s))
        return power_w and lost_s * power_w * (devices / one.point.devices / JOULES_PER_WH)

    is_warm = not all(value_at(record, "metrics.checkpoint_cold") for record in one.good)
    scaled = finding("checkpoint_scaled", measured=one.point.devices, devices=devices)
    doubts = [*[scaled] * (devices != one.point.devices), *[finding("checkpoint_warm")] * is_warm]
    energies = energy(lambda job: 1.0), energy(lambda job: S_PER_DAY / job.mean_s)
    return Goodput(work_s, steps, estimate(lambda job: job.useful(work_s)), *energies, doubts)


def _jobs(one: PointResults, failures: Failures, devices: int) -> Iterator[JobTimes]:
    """Yield the times of a job by the medians of its runs, then by the ends of all ranges."""
    ranges = [
        [pick(one.values(f"metrics.checkpoint_{name}{end}_s") or [math.nan]) for name in ("write", "restore")]
        for end, pick in (("", statistics.median), ("_least", min), ("_most", max))
    ]
    pause_s = one.value("metrics.checkpoint_pause_s")
    if pause_s is None or any(map(math.isnan, itertools.chain(*ranges))):
        return
    cases = [(failures.mttf_h, ranges[0]), *itertools.product(failures.range_h, ranges[1:])]
    for mttf_h, (write_s, restore_s) in cases:
        pause = max(0.0, pause_s) if one.value("metrics.checkpoint_async") else write_s
        yield JobTimes(mttf_h * S_PER_H / devices, failures.restart_s, restore_s, pause, max(0.0, write_s - pause))
