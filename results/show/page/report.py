"""The report, one self-contained HTML page: the ranking, its uncertainty, its limits, and the origin of the numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.process.whole_file import write_whole
from record.values import count, grouped, value_at
from results.files.quantities import QUANTITIES, Quantity, quantities
from results.files.workloads import facts_about
from results.find.in_parallel import for_each
from results.find.records import Record, RecordError, Skipped
from results.points.repeats import PointResults, by_point
from results.show.page.first_page import first_page
from results.show.plots.charts import styles_of_systems
from results.show.plots.workload import charts_of
from results.show.tables.cells import STATUS, Cell, Table, is_number, sort_value
from results.show.tables.parts import file_table, of_reads, read_table, region_table, split_notes
from results.show.tables.table import LONG, point_table, within_limits
from results.show.tables.verdicts import cost_table, crossing_table, verdict_table
from results.show.words import (
    changes,
    cost_words,
    first_of,
    form_of_score,
    limits,
    measure_next,
    merged,
    not_ranked,
    of_workload,
)
from results.verdicts.cost import Costs, provisioned_sources
from results.verdicts.power_level import lowest_level
from results.verdicts.quality import GRADES, energy_kind, energy_rules
from results.verdicts.requirements import Requirements
from results.verdicts.tender import Decision, Pledge

TEMPLATE = "report.html.j2"
ENDINGS = (".html", ".htm")
DETAILS_SHOWN = 3  # cases of a limit
LONG_TEXT = 24  # characters: a longer text is wrapped
KEPT = {False: "NO", None: "unknown", True: "yes"}  # a rule of an energy, from the worst case to the best
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
            sample = re.sub(", SHA-256 [0-9a-f]+", "", point.sample)  # of a trace
            title = f"{title}: {', '.join(filter(None, [point.model, point.data, sample]))}"
            name = _file_name(title, {*RESERVED, *(one.name for one in workloads)})
            workloads.append(Workload(title, short, name, results))
    return workloads


def _file_name(title: str, taken: set[str]) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")[:LONGEST_BYTES] or "workload"
    return next(one for mark in range(len(taken) + 1) if (one := f"{name}{mark or ''}") not in taken)


def grid_of(table: Table) -> tuple[list[tuple[str, str, str]], list[tuple[bool, list[tuple[str, str]]]]]:
    """Return a table for the page, with its status last.

    A heading is a title, its explanation and its class in the style sheet. A row is whether its status is not ok, and
    its cells: a text, and the number that it is sorted by, if it is one.
    """
    table = table.chosen(sorted(range(len(table.columns)), key=lambda at: table.columns[at].title == STATUS))
    titles, *texts = table.texts()
    kinds = map(_kind, table.columns, zip(*table.rows, strict=True), zip(*texts, strict=True))
    headings = [(title, column.help, kind) for title, column, kind in zip(titles, table.columns, kinds, strict=True)]
    has_status = table.columns[-1].title == STATUS
    keys = [[f"{sort_value(cell):.9g}" if is_number(cell) else "" for cell in row] for row in table.rows]
    rows = [
        (has_status and words[-1] != "ok", list(zip(words, of_row, strict=True)))
        for words, of_row in zip(texts, keys, strict=True)
    ]
    return headings, rows


def _kind(column: Quantity, cells: Sequence[Cell], texts: Sequence[str]) -> str:
    if column.title == STATUS:
        return "status"
    if any(texts) and all(is_number(cell) for cell, text in zip(cells, texts, strict=True) if text):
        return "number"
    return "long" if max(map(len, texts)) > LONG_TEXT else "text"


def points_table(results: Sequence[PointResults]) -> Table:
    """Return all points of a workload."""
    return point_table(results).filled(without=("model", "data", "in/out", LONG))


def quality_table(records: Sequence[Record]) -> Table:
    """Return for each system the worst case of each rule of its energies."""
    cases = [(record, rule) for record in records if record.is_good for rule in energy_rules(record)]
    rows = []
    for (system, topic), alike in grouped(cases, lambda case: (case[0].system, case[1].finding.topic)).items():
        record, rule = next(case for kept in KEPT for case in alike if case[1].kept is kept)
        rows.append([system, energy_kind(record) or "", topic, KEPT[rule.kept], rule.finding.words])
    return Table(quantities("system", "energy is", "rule", "kept", "worst run"), rows)


def sources_of(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return for each system the sensors of its energies, the levels of their measurement, and provisioned power."""
    found = []
    with_energy = [record for record in records if record.is_good and record.energy]
    for system, runs in grouped(with_energy, lambda record: record.system).items():
        channels = [channel for record in runs for channel in (record.energy.channels if record.energy else ())]
        words = [f"{one.name}: {one.source or 'unknown'}, energy by {one.method or 'unknown'}" for one in channels]
        if level := lowest_level(runs):
            levels = {"power_level": level.words, "next_level": level.lacking_words}
            words += [f"{QUANTITIES[name].title}: {text}" for name, text in levels.items() if text]
        found.append((system, "; ".join(dict.fromkeys([*words, *provisioned_sources(runs)]))))
    return found


def origin_table(records: Sequence[Record]) -> Table:
    """Return a row for each combination of software and firmware in the records."""
    found: dict[tuple[str, ...], None] = {}
    for record in records:
        origin = record.provenance
        packages = [f"{name} {version}" for name, version in (origin.packages or {}).items() if version]
        software = ", ".join([f"Python {value_at(record, 'provenance.python') or 'unknown'}", *packages])
        container = " ".join(filter(None, [origin.container, origin.container_digest])) or "none"
        code = str(origin.git_commit or "unknown")[:12] + (" with changes" if origin.git_dirty else "")
        for node in origin.nodes:
            facts = {"hostname": None, "architecture": None, "kernel": None, **vars(node)}
            machine = (facts["hostname"], node.cpu or facts["architecture"], facts["kernel"])
            names = (str(fact or "unknown") for fact in machine)
            found[(record.system, *names, _devices(node.devices), software, container, code)] = None
    columns = ("system", "node", "processor", "kernel", "devices and firmware", "software", "container", "code")
    return Table(quantities(*columns), list(found))


def _devices(devices: Any) -> str:
    facts = ("driver_version", "vbios_version", "power.limit", "clocks.max.sm", "ecc.mode.current", "mig.mode.current")
    texts = [
        ", ".join([str(device.get("name", "")), *(f"{name} {device[name]}" for name in facts if name in device)])
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    ]
    return "; ".join(f"{texts.count(text)} x {text}" for text in dict.fromkeys(texts) if text)


def commands_of(results: Sequence[PointResults]) -> list[tuple[str, str]]:
    """Return for each point the command line of its first run."""
    commands = [(f"{one.system}: {one.point}", one.any.provenance.command) for one in results]
    return [(where, shlex.join(map(str, words))) for where, words in commands if isinstance(words, list)]


# Functions that the template calls, most of them with the results of a section's points.
CALLED = (
    *(points_table, region_table, split_notes, of_reads, read_table, file_table),
    *(grid_of, within_limits, verdict_table, first_of, not_ranked, changes),
)


def check_page(page: Path) -> None:
    """Raise RecordError unless a report can be written there: an error after the work would waste it."""
    if page.suffix.lower() not in ENDINGS:
        raise RecordError(f"--out {page}: a report is a .html")
    if page.is_dir():
        raise RecordError(f"--out {page} is a folder: name a file in it")


def environment() -> Any:
    """Return the environment of the pages' templates."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_report(
    records: Sequence[Record],
    skipped: Sequence[Skipped],
    page: Path,
    costs: Costs | None = None,
    requirements: Requirements | None = None,
    pledge: Pledge | None = None,
) -> list[Path]:
    """Write the page, and each of its plots as PNG in a folder next to it.

    Returns the files, the page first.
    """
    decision = Decision(by_point(records), requirements, costs, skipped, pledge) if requirements else None
    if decision:
        records = [record for record in records if record not in decision.left_out]
    workloads = workloads_of(by_point(records))
    styles = styles_of_systems(point for workload in workloads for point in workload.results)
    titled = [(workload.short, workload.results) for workload in workloads]
    groups = [workload.results for workload in workloads]
    charts = {
        workload.name: [
            chart._replace(name=f"{workload.name}_{chart.name}") for chart in charts_of(workload.results, styles)
        ]
        for workload in workloads
    }
    every = [chart for of_workload in charts.values() for chart in of_workload]
    drawn = dict(zip(every, for_each(lambda chart: (chart.svg(), chart.png()), every), strict=True))
    found, failed = limits(records, skipped, titled, decision), decision.failed if decision else ()
    created = sorted(str(date)[:10] for one in records if (date := one.provenance.created))
    templates = environment()
    templates.globals |= {function.__name__: function for function in CALLED}
    text = templates.get_template(TEMPLATE).render(
        title=f"Speed and energy of {', '.join(dict.fromkeys(record.system for record in records))}",
        about=[count(len(records), "run"), " to ".join(dict.fromkeys([*created[:1], *created[-1:]]))],
        workloads=workloads,
        decision=decision,
        details_shown=DETAILS_SHOWN,
        grades=GRADES,
        charts=charts,
        svg=lambda chart: drawn[chart][0],
        commands=commands_of([point for points in groups for point in points]),
        first_page=first_page(titled, styles, costs, decision),
        answers=[(title, of_workload(results)) for title, results in titled],
        form=form_of_score(decision.requirements, decision.ranked.reference) if decision else "",
        limits=found,
        measure_next=measure_next(found),
        skipped=merged(str(file) for file in skipped if file.systems is None),
        quality=quality_table(records),
        sources=sources_of(records),
        origins=origin_table(records),
        files=[(record.file.path, record.file.sha256) for record in records if record.file],
        costs=cost_table(groups, costs) if costs else None,
        cost_words=dict.fromkeys(" ".join(cost_words(group, costs, failed)) for group in groups) if costs else (),
        crossings=crossing_table(groups, costs, failed) if costs else None,
        assumptions=costs.assumptions() if costs else (),
    )
    write_whole(page, text)
    folder = page.with_name(f"{page.stem}_plots")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {folder / f"{chart.name}.png": png for chart, (_, png) in drawn.items()}
    for picture, png in pictures.items():
        write_whole(picture, png)
    return [page, *pictures]
