"""Time of training steps by region, over all runs of a point, and the changes between two sides."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from results.record.records import Record
from results.record.values import rounded

# In the order of a step; regions of a workload's own come after them, and last what is in none.
ORDER = ("IO", "Forward", "Forward+Backward", "Backward", "Comm", "Update")
OTHER = "Other"
WINDOWS = ("measured", "effective")
TOLD_BY = {"host": "host's clock", "device": "device's events", "in parts": "split steps"}
TELLING_SHARE = 0.01  # of a step: a change of less is not told


class RegionTime(NamedTuple):
    """One region of the steps of a point: the median over its runs, times in seconds of a step."""

    name: str
    median_s: float
    p95_s: float
    share_percent: float
    whole_s: float | None  # with what lies in it, and what of it goes on beside the step
    imbalance_percent: float | None  # of a step, between the processes
    told_by: str


class StepRegions(NamedTuple):
    """Time of the steps in one kind of window, by region."""

    window: str
    step_s: float
    regions: list[RegionTime]
    longer_percent: float | None  # by which split steps took longer than those that they represent


def regions_of(records: Sequence[Record]) -> list[StepRegions]:
    """Return the regions of a point's runs, for each kind of window that all of the runs record."""
    found = []
    for window in WINDOWS:
        told = [(record.get("regions") or {}).get(window) or {} for record in records]
        if told and all(one.get("regions") and one.get("step_s") for one in told):
            found.append(_of_runs(window, told))
    return found


def _of_runs(window: str, told: Sequence[dict[str, Any]]) -> StepRegions:
    names = dict.fromkeys(name for one in told for name in one["regions"])
    regions = []
    for name in sorted(names, key=_place):
        runs = [one["regions"].get(name) or {} for one in told]
        known = next(run for run in runs if run)
        regions.append(
            RegionTime(
                name,
                statistics.median(run.get("median_s") or 0.0 for run in runs),
                statistics.median(run.get("p95_s") or 0.0 for run in runs),
                statistics.fmean(run.get("share_percent") or 0.0 for run in runs),
                median_of_all([run.get("whole_s") for run in runs]),
                median_of_all([run.get("imbalance_percent") for run in runs]),
                TOLD_BY.get(known.get("from") or told[0].get("clock", ""), ""),
            )
        )
    step_s = statistics.median(one["step_s"] for one in told)
    return StepRegions(
        window, step_s, regions, median_of_all([(one.get("in_parts") or {}).get("longer_percent") for one in told])
    )


def _place(name: str) -> tuple[int, str]:
    if name == OTHER:
        return len(ORDER) + 1, ""
    return (ORDER.index(name), "") if name in ORDER else (len(ORDER), name)


def median_of_all(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, and unless all are known."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def changes(base: Sequence[Record], other: Sequence[Record]) -> str:
    """Describe how a step's time changed, region by region; empty if a side has no regions."""
    sides = [{steps.window: steps for steps in regions_of(side)}.get(WINDOWS[0]) for side in (base, other)]
    if sides[0] is None or sides[1] is None:
        return ""
    ours, theirs = ({region.name: _seconds(steps, region) for region in steps.regions} for steps in sides if steps)
    differences = {name: theirs.get(name, 0.0) - ours.get(name, 0.0) for name in ours.keys() | theirs.keys()}
    told = [
        f"{name} {_ms(ours.get(name, 0.0))} to {_ms(theirs.get(name, 0.0))}"
        for name, change in sorted(differences.items(), key=lambda one: (-abs(one[1]), one[0]))
        if abs(change) >= TELLING_SHARE * sides[0].step_s
    ]
    steps = f"a step from {_ms(sides[0].step_s)} to {_ms(sides[1].step_s)} ms"
    return f"{steps}: {', '.join(told)}" if told else f"{steps}, with every region as it was"


def _seconds(steps: StepRegions, region: RegionTime) -> float:
    """Return a region's time in a typical step, in seconds; the regions sum up to the step."""
    return steps.step_s * region.share_percent / 100


def _ms(seconds: float) -> str:
    return rounded(1e3 * seconds) or "0"
