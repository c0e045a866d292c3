"""Tables of the time of training steps by region, from records."""

from __future__ import annotations

from collections.abc import Sequence

from results.files.quantities import Quantity, Shown, quantities
from results.points.regions import regions_of, timed_by
from results.points.repeats import PointResults
from results.show.tables.cells import Cell, Table
from results.show.tables.table import PLACE, place_cells

WINDOW, *REST = (Quantity(title, shown=Shown.DIFFERS) for title in ("window", "imbalance [%]", "timed by"))
TIMES = quantities("region", "median [ms]", "95th percentile [ms]", "share [%]", "whole [ms]")
COLUMNS = [*PLACE, WINDOW, *TIMES, *REST]


def region_table(results: Sequence[PointResults]) -> Table:
    """Return a row for each region of each point whose runs record them."""
    rows: list[list[Cell]] = []
    for one in results:
        for window, steps in regions_of(one.good).items():
            for name, region in steps.regions.items():
                whole_ms = None if region.whole_s is None else 1e3 * region.whole_s
                times_ms = [1e3 * (time_s or 0.0) for time_s in (region.median_s, region.p95_s)]
                shares = [region.share_percent, whole_ms, region.imbalance_percent]
                rows.append([*place_cells(one), window, name, *times_ms, *shares, timed_by(region, steps)])
    return Table(COLUMNS, rows)


def split_notes(results: Sequence[PointResults]) -> list[str]:
    """Return a note on how much longer split steps were than the steps that they represent."""
    every = [steps.in_parts.number("longer_percent") for one in results for steps in regions_of(one.good).values()]
    longer = [percent for percent in every if percent is not None]
    words = "Regions by split steps divide the time of the window's steps in the proportions of steps with a wait"
    range_of_all = f"{min(longer, default=0.0):+.0f} to {max(longer, default=0.0):+.0f} %"
    return [f"{words} after each part; those took {range_of_all} longer."] if longer else []
