"""Time of training steps by region, over all runs of a point."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from record.model import Numbers, Region, Regions
from record.part import changed
from results.find.records import Record

# In the order of a step; other regions of a workload follow, and the time outside of all regions is last.
ORDER = ("IO", "Forward", "Forward+Backward", "Backward", "Comm", "Update")
OTHER = "Other"
WINDOWS = ("measured", "effective")
TIMED_BY = {"host": "host's clock", "device": "device's events", "in parts": "split steps"}
ABSENT = Region(median_s=None, share_percent=None)


def regions_of(records: Sequence[Record]) -> dict[str, Regions]:
    """Return the regions of a point for each kind of window that all of its runs record: medians, of shares the mean.

    The regions are in the order of a step.
    """
    by_window = {}
    for window in WINDOWS:
        runs = [run for record in records if (run := record.regions.get(window)) and run.regions and run.step_s]
        if runs and len(runs) == len(records):
            names = sorted({name for run in runs for name in run.regions}, key=lambda name: (_place(name), name))
            by_window[window] = changed(
                runs[0],
                step_s=statistics.median(run.step_s or 0.0 for run in runs),
                regions={name: _median([run.regions.get(name, ABSENT) for run in runs]) for name in names},
                in_parts=Numbers.of(
                    {"longer_percent": median_of_all([run.in_parts.number("longer_percent") for run in runs])}
                ),
            )
    return by_window


def _median(regions: Sequence[Region]) -> Region:
    return changed(
        next(region for region in regions if region is not ABSENT),
        median_s=statistics.median(region.median_s or 0.0 for region in regions),
        p95_s=statistics.median(region.p95_s or 0.0 for region in regions),
        share_percent=statistics.fmean(region.share_percent or 0.0 for region in regions),
        whole_s=median_of_all([region.whole_s for region in regions]),
        imbalance_percent=median_of_all([region.imbalance_percent for region in regions]),
    )


def timed_by(region: Region, steps: Regions) -> str:
    """Return what timed a region of some steps, as text."""
    return TIMED_BY.get(region.from_ or steps.clock, "")


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER) + (name == OTHER)


def median_of_all(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, or if one is unknown."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None
