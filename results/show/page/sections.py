"""Sections of the page: plots and sentences of each workload."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from record.values import grouped
from results.files.workloads import title_of
from results.find.in_parallel import for_each
from results.find.records import Record
from results.points.repeats import PointResults, by_point
from results.predict.curve import FEWEST_POINTS
from results.predict.predict import groups_of
from results.show.plots.style import Chart, Styles, styles_of_systems
from results.show.plots.workload import charts_of
from results.show.tables.prediction import disturbed_words
from results.show.tables.table import within_limits
from results.verdicts.ranking import ranked_points


class Section(NamedTuple):
    """One workload on one kind of data."""

    title: str
    short: str  # the title without its data
    anchor: str
    results: list[PointResults]
    charts: list[Chart]
    limits: list[str]  # of load, of servers
    outliers: list[str]  # sentences on points that differ from their neighbours


def sections_of(records: Sequence[Record]) -> list[Section]:
    """Return a section for each workload on each kind of data."""
    split = by_workload(by_point(records))
    styles = styles_of_systems(one for group in split for one in group)
    return [_section(index, group, styles) for index, group in enumerate(split)]


def by_workload(results: Sequence[PointResults]) -> list[list[PointResults]]:
    """Return the points of each workload on each kind of data."""
    split: list[list[PointResults]] = []
    for group in grouped(results, lambda one: one.point[:2]).values():
        # Failed points have no record of their data: they join the first kind.
        kinds = list(dict.fromkeys(one.point[2:4] for one in group if one.good)) or [group[0].point[2:4]]
        split += [
            [one for one in group if one.point[2:4] == kind or (not one.good and kind == kinds[0])] for kind in kinds
        ]
    return split


def title_of_workload(results: Sequence[PointResults]) -> str:
    """Return the title of the points of a workload."""
    point = next((one for one in results if one.good), results[0]).point
    details = ", ".join(filter(None, [point.model, point.data, point.sample]))
    return f"{title_of(point.benchmark)}: {details}"


def _section(index: int, results: list[PointResults], styles: Styles) -> Section:
    point = next((one for one in results if one.good), results[0]).point
    groups = [group for group in groups_of(ranked_points(results)) if len(group.points) >= FEWEST_POINTS]
    name = f"{point.benchmark}_{index}"
    title = title_of(point.benchmark)
    return Section(
        title_of_workload(results),
        title if point.model in title else f"{title}, {point.model}",
        name,
        results,
        [chart._replace(name=f"{name}_{chart.name}") for chart in charts_of(results, styles)],
        within_limits(results),
        list(chain.from_iterable(for_each(disturbed_words, groups))),
    )
