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
    every = []
    for window in WINDOWS:
        entries = [
            entry for record in records if (entry := record.regions.get(window)) and entry.regions and entry.step_s
        ]
        if entries and len(entries) == len(records):
            every.append(_medians(window, entries))
    return every


def _medians(window: str, entries: Sequence[Regions]) -> StepRegions:
    names = dict.fromkeys(name for one in entries for name in one.regions)
    regions = []
    for name in sorted(names, key=_place):
        runs = [one.regions.get(name) or ABSENT for one in entries]
        known = next(run for run in runs if run is not ABSENT)
        regions.append(
            RegionTime(
                name,
                statistics.median(run.median_s or 0.0 for run in runs),
                statistics.median(run.p95_s or 0.0 for run in runs),
                statistics.fmean(run.share_percent or 0.0 for run in runs),
                median_of_all([run.whole_s for run in runs]),
                median_of_all([run.imbalance_percent for run in runs]),
                TIMED_BY.get(known.from_ or entries[0].clock, ""),
            )
        )
    step_s = statistics.median(one.step_s or 0.0 for one in entries)
    longer = median_of_all([one.in_parts.number("longer_percent") for one in entries])
    return StepRegions(window, step_s, regions, longer)


def _place(name: str) -> tuple[int, str]:
    if name == OTHER:
        return len(ORDER) + 1, ""
    return (ORDER.index(name), "") if name in ORDER else (len(ORDER), name)


def median_of_all(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, or if one is unknown."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def changes(base: Sequence[Record], other: Sequence[Record]) -> str:
    """Describe how a step's time changed, region by region; empty if a side has no regions."""
    sides = [{steps.window: steps for steps in regions_of(side)}.get(WINDOWS[0]) for side in (base, other)]
    if sides[0] is None or sides[1] is None:
        return ""
    ours, theirs = ({region.name: _seconds(steps, region) for region in steps.regions} for steps in sides if steps)
    differences = {name: theirs.get(name, 0.0) - ours.get(name, 0.0) for name in ours.keys() | theirs.keys()}
    changed = [
        f"{name} {_ms(ours.get(name, 0.0))} to {_ms(theirs.get(name, 0.0))}"
        for name, change in sorted(differences.items(), key=lambda one: (-abs(one[1]), one[0]))
        if abs(change) >= LEAST_CHANGE * sides[0].step_s
    ]
    steps = f"a step from {_ms(sides[0].step_s)} to {_ms(sides[1].step_s)} ms"
    return f"{steps}: {', '.join(changed)}" if changed else f"{steps}, and no region changed"


def _seconds(steps: StepRegions, region: RegionTime) -> float:
    """Return a region's time in a typical step, in seconds; the regions sum up to the step."""
    return steps.step_s * region.share_percent / 100


def _ms(seconds: float) -> str:
    return rounded(1e3 * seconds) or "0"
