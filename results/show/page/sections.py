"""Sections of the page: plots and sentences of each workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from jpwr.errors import JpwrError
from jpwr.trace.trace import Trace
from record.values import PER_DEVICE, WORK, grouped
from results.files.workloads import title_of
from results.find.in_parallel import for_each
from results.find.records import Record
from results.join.nodes import TRACES
from results.points.repeats import PointResults, by_point
from results.predict.curve import FEWEST_POINTS
from results.predict.predict import Group, groups_of
from results.show.plots.cost import cost_charts
from results.show.plots.energy import energy_by_scope, pareto, power_over_time
from results.show.plots.operating import operating_charts
from results.show.plots.prediction import scaling_beyond
from results.show.plots.reads import bandwidth_over_time, sizes_of_reads
from results.show.plots.regions import steps_by_region
from results.show.plots.serving import serving_charts
from results.show.plots.style import EFFICIENCY, SPEED, Chart, Styles, kinds_alike, styles_of_systems
from results.show.plots.sweep import heat_map_of_system, over_batch, scaling
from results.show.plots.systems import compute_and_effective, ratios
from results.show.tables.table import within_limits
from results.verdicts.cost import Costs
from results.verdicts.ranking import fastest, ranked_points


class Section(NamedTuple):
    """One workload on one kind of data."""

    title: str
    short: str  # the title without its data
    anchor: str
    results: list[PointResults]
    charts: list[Chart]
    limits: list[str]  # of load, of servers
    groups: list[Group]  # that predictions are made from


def sections_of(records: Sequence[Record], costs: Costs | None) -> list[Section]:
    """Return a section for each workload on each kind of data."""
    split = by_workload(by_point(records))
    styles = styles_of_systems(one for group in split for one in group)
    return [_section(index, group, costs, styles) for index, group in enumerate(split)]


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


def _section(index: int, results: list[PointResults], costs: Costs | None, styles: Styles) -> Section:
    point = next((one for one in results if one.good), results[0]).point
    groups = [group for group in groups_of(ranked_points(results)) if len(group.points) >= FEWEST_POINTS]
    for group, errors in zip(groups, for_each(attrgetter("errors"), groups), strict=True):
        group.errors = errors
    charts = _charts(results, groups, costs, styles)
    name = f"{point.benchmark}_{index}"
    title = title_of(point.benchmark)
    return Section(
        title_of_workload(results),
        title if point.model in title else f"{title}, {point.model}",
        name,
        results,
        [chart._replace(name=f"{name}_{chart.name}") for chart in charts if chart],
        within_limits(results),
        groups,
    )


def _charts(
    results: list[PointResults],
    groups: Sequence[Group],
    costs: Costs | None,
    styles: Styles,
) -> list[Chart | None]:
    """Return the charts of the details; None stands for a chart whose values the results lack."""
    served = serving_charts(results, styles)
    charts: list[Chart | None] = [
        *served,
        *([] if served else over_batch(results, SPEED, styles)),
        *([] if served else over_batch(results, EFFICIENCY, styles)),
        *_ratios(results, styles),
        *([] if served else pareto(results, styles)),
        *scaling(results, styles),
        *operating_charts(results, styles),
        compute_and_effective(results, styles),
        energy_by_scope(results, styles),
        steps_by_region(results),
        bandwidth_over_time(results),
        sizes_of_reads(results),
    ]
    for number, system in enumerate(dict.fromkeys(one.system for one in results)):
        charts.append(None if served else heat_map_of_system(results, system, f"heat_map_{number}"))
        charts.append(_power_chart(results, system, f"power_{number}"))
    if costs:
        charts += cost_charts(results, costs, styles)
    return [*charts, scaling_beyond(groups, styles)]


def _power_chart(results: Sequence[PointResults], system: str, name: str) -> Chart | None:
    best = fastest(one for one in results if one.system == system)
    if best is None:
        return None
    record = best.good[0]
    title = f"{system}, {best.point.place}"
    return power_over_time(record, _traces(record), title, name)


def _traces(record: Record) -> Iterator[Trace]:
    """Yield the traces of a run, one at a time."""
    from jpwr.trace.writers import read_trace

    for path in sorted(Path(record.file.path).parent.glob(TRACES)) if record.file else []:
        try:
            yield read_trace(path)
        except (JpwrError, OSError):
            continue


def _ratios(results: Sequence[PointResults], styles: Styles) -> list[Chart | None]:
    """Return charts that compare speed in each precision, and work per energy for each measured kind of energy."""
    ranked = ranked_points(results)
    charts = []
    for path, words, name in ((PER_DEVICE, "Speed per device", "speed_up"), (WORK, "Work per energy", "energy_ratio")):
        of_energy = path == WORK
        groups = [group for group in kinds_alike(ranked, of_energy).items() if "Q0" not in group[0]]
        for index, (kind, mine) in enumerate(groups):
            title = f"{words} ({kind})" if of_energy or len(groups) > 1 else words
            charts.append(ratios(mine, path, title, f"{name}_{index}", styles))
    return charts
