"""Time of training steps by region, over all runs of a point, and the changes between two sides."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from record.model import Region, Regions
from record.values import rounded
from results.find.records import Record

# In the order of a step; other regions of a workload follow, and the time outside of all regions is last.
ORDER = ("IO", "Forward", "Forward+Backward", "Backward", "Comm", "Update")
OTHER = "Other"
WINDOWS = ("measured", "effective")
TIMED_BY = {"host": "host's clock", "device": "device's events", "in parts": "split steps"}
ABSENT = Region(median_s=None, share_percent=None)
LEAST_CHANGE = 0.01  # of a step's time: smaller changes are not reported


class RegionTime(NamedTuple):
    """One region of the steps of a point: medians over its runs, times per step in seconds."""

    name: str
    median_s: float
    p95_s: float
    share_percent: float
    whole_s: float | None  # with the regions inside it, and its time in the background
    imbalance_percent: float | None  # of a step's time, between the processes
    timed_by: str


class StepRegions(NamedTuple):
    """Time of the steps in one kind of window, by region."""

    window: str
    step_s: float
    regions: list[RegionTime]
    longer_percent: float | None  # by which split steps took longer than the steps they represent


def regions_of(records: Sequence[Record]) -> list[StepRegions]:
    """Return the regions of a point's runs, for each kind of window that all of the runs record."""
    every = ((window, [record.regions.get(window) for record in records]) for window in WINDOWS)
    known = ((window, [run for run in runs if run and run.regions and run.step_s]) for window, runs in every)
    return [_medians(window, runs) for window, runs in known if runs and len(runs) == len(records)]


def _medians(window: str, runs: Sequence[Regions]) -> StepRegions:
    names = sorted({name for run in runs for name in run.regions}, key=lambda name: (_place(name), name))
    step_s = statistics.median(run.step_s or 0.0 for run in runs)
    longer = median_of_all([run.in_parts.number("longer_percent") for run in runs])
    return StepRegions(window, step_s, [_median(name, runs) for name in names], longer)


def _median(name: str, runs: Sequence[Regions]) -> RegionTime:
    regions = [run.regions.get(name, ABSENT) for run in runs]
    known = next(region for region in regions if region is not ABSENT)
    return RegionTime(
        name,
        statistics.median(region.median_s or 0.0 for region in regions),
        statistics.median(region.p95_s or 0.0 for region in regions),
        statistics.fmean(region.share_percent or 0.0 for region in regions),
        median_of_all([region.whole_s for region in regions]),
        median_of_all([region.imbalance_percent for region in regions]),
        TIMED_BY.get(known.from_ or runs[0].clock, ""),
    )


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER) + (name == OTHER)


def median_of_all(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, or if one is unknown."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def changes(base: Sequence[Record], other: Sequence[Record]) -> str:
    """Describe how a step's time changed, region by region; empty if a side has no regions."""
    sides = [steps for side in (base, other) for steps in regions_of(side) if steps.window == WINDOWS[0]]
    if len(sides) < 2:
        return ""
    # The regions' shares of a typical step sum up to it.
    before, after = ({one.name: steps.step_s * one.share_percent / 100 for one in steps.regions} for steps in sides)
    by_name = {name: (before.get(name, 0.0), after.get(name, 0.0)) for name in sorted(before.keys() | after.keys())}
    largest_first = sorted(by_name.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
    changed = [
        f"{name} {_ms(before_s)} to {_ms(after_s)}"
        for name, (before_s, after_s) in largest_first
        if abs(after_s - before_s) >= LEAST_CHANGE * sides[0].step_s
    ]
    steps = f"a step from {_ms(sides[0].step_s)} to {_ms(sides[1].step_s)} ms"
    return f"{steps}: {', '.join(changed)}" if changed else f"{steps}, and no region changed"


def _ms(seconds: float) -> str:
    return rounded(1e3 * seconds) or "0"
