"""A folder of static pages over all results: one of each workload, with its points to filter, and one of each point.

Nothing is loaded from elsewhere, and each page can be read without JavaScript.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import write_whole
from record.values import PER_DEVICE, WORK, count
from results.files.quantities import QUANTITIES, Shown, quantities
from results.find.in_parallel import for_each
from results.find.records import Record, RecordError, Skipped
from results.frames import csv_text, points_frame
from results.points.repeats import PointResults, by_point
from results.show.page.first_page import first_page
from results.show.page.report import (
    DETAILS_SHOWN,
    Workload,
    commands_of,
    environment,
    grid_of,
    origin_table,
    points_table,
    workloads_of,
)
from results.show.plots.charts import Styles, styles_of_systems
from results.show.plots.workload import frame_of, speed_against_energy
from results.show.tables.cells import Table
from results.show.tables.table import point_table, record_table
from results.show.words import failure, limits, merged
from results.verdicts.quality import why_left_out, why_not_ranked

FILES = "files_of_site.txt"  # names of all files: the next site removes these and no others


def write_site(records: Sequence[Record], skipped: Sequence[Skipped], folder: Path) -> int:
    """Write the site, and remove the files of an older one; returns the number of its files.

    Raises RecordError for a folder with other files.
    """
    old = files_of_site(folder)
    for place in ("points", "records"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / FILES).touch()  # an interrupted site can be written again
    templates = environment()
    templates.globals |= {"count": count, "details_shown": DETAILS_SHOWN, "grid_of": grid_of, "root": ""}
    styles = styles_of_systems(points := by_point(records))
    written, workloads = {FILES, *map(_file, records)}, workloads_of(points)
    for workload in workloads:
        page = partial(_write_point, folder, templates, workload)
        of_points = list(for_each(page, workload.results, together=20))
        links = [f"points/{_id(one.any)}.html" for one in workload.results]
        for ending, content in _files_of(workload, links, of_points, templates, styles):
            write_whole(folder / f"{workload.name}{ending}", content)
            written.add(f"{workload.name}{ending}")
        written |= {*links}
    index = {
        "workloads": workloads,
        "records": records,
        "skipped": merged(map(str, skipped)),
        "first_page": first_page([(one.title, one.results) for one in workloads], styles),
        "links": {point.system: f"{one.name}.html" for one in reversed(workloads) for point in one.results},
    }
    for path in ("style.css", "script.js", "index.html"):
        write_whole(folder / path, templates.get_template(f"site_{path}.j2").render(index))
        written.add(path)
    for path in old - written:
        (folder / path).unlink(missing_ok=True)
    write_whole(folder / FILES, "".join(f"{path}\n" for path in sorted(written)))
    return len(written)


def files_of_site(folder: Path) -> set[str]:
    """Return the files of the site in a folder; raises RecordError for a folder with other files alone."""
    if (folder / FILES).is_file():
        names = (folder / FILES).read_text(encoding="utf-8").splitlines()
        return {name for name in names if (folder / name).resolve().is_relative_to(folder.resolve())}
    if folder.is_file() or (folder.exists() and any(not one.name.startswith(".") for one in folder.iterdir())):
        raise RecordError(f"--out {folder} is no empty folder, and no site of caraml: name a new or empty folder")
    return set()


def _id(record: Record) -> str:
    """Return the name of a run, and of the point that it is the first of: the same in each site."""
    return record.file.sha256[:16]


def _file(record: Record) -> str:
    return f"records/{_id(record)}.json"


def _write_point(folder: Path, templates: Any, workload: Workload, one: PointResults) -> str:
    """Write the page of a point, and copy its records; returns its limits in few words."""
    runs, table, why = [*one.good, *one.bad], point_table([one]).filled(), _why_not_ranked(one)
    found = limits(runs, (), [(workload.title, [one])], None)
    for record in runs:
        write_whole(folder / _file(record), Path(record.file.path).read_bytes())
    values = zip(table.titles, table.rows[0], (column.help for column in table.columns), strict=True)
    text = templates.get_template("site_point.html.j2").render(
        root="../",
        one=one,
        title=workload.title,
        workload=f"{workload.name}.html",
        why=why,
        limits=found,
        values=Table(quantities("quantity", "value", "meaning"), list(values)),
        runs=record_table(runs).filled(),
        files=[f"../{_file(record)}" for record in runs],
        origins=origin_table(runs),
        commands=commands_of([one]),
    )
    write_whole(folder / f"points/{_id(one.any)}.html", text)
    return why or (count(len(found), "limit") if found else "")


def _why_not_ranked(one: PointResults) -> str:
    """Return why a point or its energy is in no ranking; empty if both are in one."""
    if not one.good:
        return str(failure(one.bad[0]))
    if why := why_left_out(one):
        return f"not ranked: {why}"
    return f"energy not ranked: {why}" if (why := why_not_ranked(one)) else ""


def _files_of(
    one: Workload, links: Sequence[str], of_points: Sequence[str], templates: Any, styles: Styles
) -> Iterator[tuple[str, str | bytes]]:
    """Yield ending and content of the files of a workload, given page and limits, in few words, of each point."""
    frame = points_frame(one.results).assign(limits=of_points, page=links)
    yield ".csv", csv_text(frame)
    yield ".parquet", frame.to_parquet(None, index=False)
    points = points_table(one.results)
    shown = [column.shown is not Shown.MORE or column.path in (PER_DEVICE, WORK) for column in points.columns]
    table = points.chosen([at for at, is_shown in enumerate(shown) if is_shown])
    rows = [[*row, limits] for row, limits in zip(table.rows, of_points, strict=True)]
    table = replace(table, columns=[*table.columns, QUANTITIES["limits"]], rows=rows)
    charts = list(speed_against_energy(frame_of(one.results), one.results[0].any.work_unit, styles))
    text = templates.get_template("site_workload.html.j2").render(workload=one, links=links, table=table, charts=charts)
    yield ".html", text
