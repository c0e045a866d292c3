"""The report, one self-contained HTML page: the ranking, its uncertainty, its limits, and the origin of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import write_whole
from record.values import count
from results.find.in_parallel import for_each
from results.find.records import Record, RecordError, Skipped
from results.points.repeats import PointResults, by_point
from results.show.page.columns import grid_of, points_table
from results.show.page.decision import Decision, decide
from results.show.page.first_page import first_page
from results.show.page.origin import commands_of, origin_table, quality_of
from results.show.page.sections import Section, sections_of
from results.show.page.shortcomings import limits, measure_next
from results.show.plots.style import Chart, styles_of_systems
from results.show.tables.accept import matrix, outcome_text, verdict_table
from results.show.tables.cost import cost_table, crossing_table
from results.show.tables.doubts import alike
from results.show.tables.published import anchor_table
from results.show.tables.reads import file_table, of_reads, read_table
from results.show.tables.regions import region_table, split_notes
from results.show.words import cost_words, form_of_score, of_ranking, of_workload
from results.verdicts.cost import Costs
from results.verdicts.quality import GRADES
from results.verdicts.requirements import Requirements
from results.verdicts.tender.pledge import Pledge

TEMPLATE = "report.html.j2"
ENDINGS = (".html", ".htm")
NAMED = 4  # systems that the title names
DETAILS_SHOWN = 3  # cases of a limit
# Functions that the template calls, most of them with the results of a section's points.
CALLED = (
    *(points_table, region_table, split_notes, of_reads, read_table, file_table),
    *(grid_of, matrix, of_ranking, outcome_text, verdict_table),
)


def check_page(page: Path) -> None:
    """Raise RecordError unless a report can be written there: an error after the work would waste it."""
    if page.suffix.lower() not in ENDINGS:
        raise RecordError(f"--out {page}: a report is a .html")
    if page.is_dir():
        raise RecordError(f"--out {page} is a folder: name a file in it")


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
    decision = decide(by_point(records), requirements, costs, skipped, pledge) if requirements else None
    if decision:
        records = [record for record in records if record not in decision.tender.left_out]
    sections = sections_of(records)
    page.parent.mkdir(parents=True, exist_ok=True)
    charts = [chart for section in sections for chart in section.charts]
    drawn = dict(zip(charts, for_each(lambda chart: (chart.svg(), chart.png()), charts), strict=True))
    text = _render(records, skipped, sections, costs, decision, lambda chart: drawn[chart][0])
    write_whole(page, text)
    folder = page.with_name(f"{page.stem}_plots")
    folder.mkdir(exist_ok=True)
    pictures = {folder / f"{chart.name}.png": png for chart, (_, png) in drawn.items()}
    for picture, png in pictures.items():
        write_whole(picture, png)
    return [page, *pictures]


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


def _render(
    records: Sequence[Record],
    skipped: Sequence[Skipped],
    sections: Sequence[Section],
    costs: Costs | None,
    decision: Decision | None,
    svg: Callable[[Chart], str],
) -> str:
    templates = environment()
    templates.globals |= {function.__name__: function for function in CALLED}
    workloads = [(section.short, section.results) for section in sections]
    groups = [section.results for section in sections]
    points = [point for group in groups for point in group]
    outliers = [words for section in sections for words in section.outliers]
    found = limits(records, skipped, workloads, outliers, decision)
    text: str = templates.get_template(TEMPLATE).render(
        sections=sections,
        svg=svg,
        decision=decision,
        details_shown=DETAILS_SHOWN,
        grades=GRADES,
        commands=commands_of(points),
        anchors=anchor_table(points),
        first_page=first_page(workloads, styles_of_systems(points), costs, decision),
        answers=[(title, of_workload(results)) for title, results in workloads],
        form=form_of_score(decision.tender.requirements, decision.ranked.reference) if decision else "",
        limits=found,
        measure_next=measure_next(found),
        skipped=alike(str(file) for file in skipped if file.systems is None),
        **_about_records(records),
        **_about_costs(groups, costs, decision.failed if decision else ()),
    )
    return text


def _about_records(records: Sequence[Record]) -> dict[str, Any]:
    created = sorted(str(date)[:10] for one in records if (date := one.provenance.created))
    systems = list(dict.fromkeys(record.system for record in records))
    names = ", ".join(systems) if len(systems) <= NAMED else f"{len(systems)} systems"
    return {
        "title": f"{names} compared" if len(systems) > 1 else f"Speed and energy of {names}",
        "about": [
            *([", ".join(systems)] if len(systems) > NAMED else []),
            count(len(records), "run"),
            *([" to ".join(dict.fromkeys((created[0], created[-1])))] if created else []),
        ],
        "quality": quality_of(records),
        "origins": origin_table(records),
        "files": [(record.file.path, record.file.sha256) for record in records if record.file],
    }


def _about_costs(
    groups: Sequence[Sequence[PointResults]], costs: Costs | None, failed: Collection[str]
) -> dict[str, Any]:
    if costs is None:
        return {"costs": None, "cost_words": [], "crossings": None, "assumptions": []}
    return {
        "costs": cost_table(groups, costs),
        "cost_words": list(dict.fromkeys(" ".join(cost_words(points, costs, failed)) for points in groups)),
        "crossings": crossing_table(groups, costs, failed),
        "assumptions": costs.assumptions(),
    }
