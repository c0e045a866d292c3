"""Workloads of a page: the points of each on each kind of data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from record.values import grouped
from results.files.workloads import facts_about
from results.points.repeats import PointResults

LONGEST_BYTES = 200  # of the name of a file without its ending: usual file systems allow 255
RESERVED = ("index", "script")  # names of other files of a site


class Workload(NamedTuple):
    """One workload on one kind of data."""

    title: str
    short: str  # the title without its data
    name: str  # of its files and charts
    results: list[PointResults]


def workloads_of(points: Sequence[PointResults]) -> list[Workload]:
    """Return each workload on each kind of data."""
    workloads: list[Workload] = []
    for group in grouped(points, lambda one: one.point[:2]).values():
        # Failed points have no record of their data: they join the first kind.
        kinds = list(dict.fromkeys(one.point[2:4] for one in group if one.good)) or [group[0].point[2:4]]
        for kind in kinds:
            results = [one for one in group if one.point[2:4] == kind or (not one.good and kind == kinds[0])]
            point = next((one for one in results if one.good), results[0]).point
            title = facts_about(point.benchmark).title
            short = title if point.model in title else f"{title}, {point.model}"
            title = f"{title}: {', '.join(filter(None, [point.model, point.data, point.sample]))}"
            name = _name(title, {*RESERVED, *(one.name for one in workloads)})
            workloads.append(Workload(title, short, name, results))
    return workloads


def _name(title: str, taken: set[str]) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")[:LONGEST_BYTES] or "workload"
    return next(one for mark in range(len(taken) + 1) if (one := f"{name}{mark or ''}") not in taken)
