"""One self-contained HTML page: the fastest systems, their energy, the uncertainty, and how to reproduce it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.errors import JpwrError
from jpwr.trace.trace import Trace
from results.join.energy import TRACES
from results.points.repeats import PointResults, by_point
from results.predict.predict import FEWEST_POINTS, Group, PredictionError, groups_of, not_measured
from results.published import EFFECTIVE, Throughput, throughputs
from results.record.records import Record, RecordError, Skipped
from results.record.values import PER_DEVICE, WORK, grouped
from results.show.plots.cost import cost_charts
from results.show.plots.energy import energy_by_scope, pareto, power_over_time
from results.show.plots.prediction import measured_against_predicted, scaling_beyond
from results.show.plots.reads import bandwidth_over_time, sizes_of_reads
from results.show.plots.regions import steps_by_region
from results.show.plots.style import EFFICIENCY, SPEED, Chart, Styles, kinds_alike, styles_of_systems
from results.show.plots.sweep import heat_map_of_system, over_batch, scaling
from results.show.plots.systems import compute_and_effective, ratios
from results.show.tables.cost import cost_rows
from results.show.tables.decision import (
    Cell,
    beyond_measured,
    cost_words,
    counts,
    form_of_score,
    matrix,
    ranking_rows,
    ranking_words,
    score_rows,
)
from results.show.tables.doubts import alike, deviations_once, energies_apart, failures_once
from results.show.tables.points import point_rows
from results.show.tables.prediction import disturbed_words, prediction_rows
from results.show.tables.reads import file_rows, of_reads, read_rows
from results.show.tables.regions import region_rows, split_notes
from results.show.tables.summary import sentences, summary_rows
from results.verdicts.accept import accept
from results.verdicts.cost import Costs
from results.verdicts.outcome import Outcome
from results.verdicts.quality import GRADES, Rule, energy_kind, energy_rules
from results.verdicts.ranking import fastest, ranked_points
from results.verdicts.requirements import Requirements
from results.verdicts.score import Ranked, scores
from results.workloads import title_of

TEMPLATE = Path(__file__).with_name("report.html.j2")
ENDINGS = (".html", ".htm", ".pdf")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PDF_TIMEOUT_S = 600
# What the template calls for each section, with the results of its points.
OF_A_SECTION = (point_rows, region_rows, split_notes, of_reads, read_rows, file_rows)


class Section(NamedTuple):
    """One workload: what is trained, on what data."""

    title: str
    anchor: str
    results: list[PointResults]
    published: list[Throughput]
    charts: list[Chart]
    sentences: list[str]
    groups: list[Group]  # that predictions are made from
    predicted: list[list[str]]  # rows


def check_page(page: Path) -> None:
    """Raise RecordError unless a report can be written there: it takes time, and should not be in vain."""
    if page.suffix.lower() not in ENDINGS:
        raise RecordError(f"--out {page}: a report is a .html or a .pdf")
    if page.is_dir():
        raise RecordError(f"--out {page} is a folder: name a file in it")
    if page.suffix.lower() == ".pdf":
        _browser(page)


def write_report(
    records: Sequence[Record],
    skipped: Sequence[Skipped],
    page: Path,
    costs: Costs | None = None,
    with_published: bool = False,
    requirements: Requirements | None = None,
) -> list[Path]:
    """Write the page (as PDF where its name says so), and each plot as PNG in a folder beside it; returns the files."""
    decision = decide(by_point(records), requirements, costs, skipped) if requirements else None
    sections = _sections(records, costs, with_published)
    page.parent.mkdir(parents=True, exist_ok=True)
    text = _render(records, skipped, sections, costs, decision)
    if page.suffix.lower() == ".pdf":
        write_pdf(text, page)
    else:
        page.write_text(text, encoding="utf-8")
    folder = page.with_name(f"{page.stem}_plots")
    folder.mkdir(exist_ok=True)
    written = [page]
    for section in sections:
        for chart in section.charts:
            picture = folder / f"{chart.name}.png"
            picture.write_bytes(chart.png())
            written.append(picture)
    return written


def _sections(records: Sequence[Record], costs: Costs | None, with_published: bool) -> list[Section]:
    workloads = grouped(by_point(records), lambda one: one.point[:2])
    split: list[list[PointResults]] = []
    for group in workloads.values():
        # Failed points do not know their data: they are with the first that do.
        kinds = list(dict.fromkeys(one.point[2:4] for one in group if one.good)) or [group[0].point[2:4]]
        split += [
            [one for one in group if one.point[2:4] == kind or (not one.good and kind == kinds[0])] for kind in kinds
        ]
    styles = styles_of_systems(one for group in split for one in group)
    return [_section(index, group, costs, with_published, styles) for index, group in enumerate(split)]


def _section(
    index: int, results: list[PointResults], costs: Costs | None, with_published: bool, styles: Styles
) -> Section:
    point = next((one for one in results if one.good), results[0]).point
    details = ", ".join(filter(None, [point.model, point.data, point.sample]))
    # Theirs are of the whole workload: not to be drawn beside a smaller one.
    beside = with_published and bool(ranked_points(results))
    published = throughputs(point.benchmark, point.model) if beside else []
    published_effective = throughputs(point.benchmark, point.model, EFFECTIVE) if beside else []
    charts = [
        *over_batch(results, SPEED, styles, published),
        *over_batch(results, EFFICIENCY, styles),
        *_ratios(results, styles),
        *pareto(results, styles),
        *scaling(results, styles),
        compute_and_effective(results, styles, published, published_effective),
        energy_by_scope(results, styles),
        steps_by_region(results),
        bandwidth_over_time(results),
        sizes_of_reads(results),
    ]
    for number, system in enumerate(dict.fromkeys(one.system for one in results)):
        charts.append(heat_map_of_system(results, system, f"heat_map_{number}"))
        charts.append(_power_chart(results, system, f"power_{number}"))
    if costs:
        charts += cost_charts(results, costs, styles)
    groups = [group for group in groups_of(ranked_points(results)) if len(group.points) >= FEWEST_POINTS]
    charts += [measured_against_predicted(groups, styles), scaling_beyond(groups, styles)]
    name = f"{point.benchmark}_{index}"
    return Section(
        f"{title_of(point.benchmark)}: {details}",
        name,
        results,
        published,
        [chart._replace(name=f"{name}_{chart.name}") for chart in charts if chart],
        sentences(results),
        groups,
        _predicted(groups, results),
    )


def _predicted(groups: Sequence[Group], results: Sequence[PointResults]) -> list[list[str]]:
    """Points that sweeps have not, as far as their others tell."""
    found = []
    for group in groups:
        for place in not_measured(group, results):
            with suppress(PredictionError):
                found.append(group.predict(*place))
    return prediction_rows(found) if found else []


def _power_chart(results: Sequence[PointResults], system: str, name: str) -> Chart | None:
    best = fastest(one for one in results if one.system == system)
    if best is None:
        return None
    record = best.good[0]
    title = f"{system}, {best.point.place}"
    return power_over_time(record, _traces(record), title, name)


def _traces(record: Record) -> list[Trace]:
    from jpwr.trace.writers import read_trace

    found = []
    for path in sorted(Path(record["file"]["path"]).parent.glob(TRACES)) if "file" in record else []:
        try:
            found.append(read_trace(path))
        except (JpwrError, OSError):
            continue
    return found


def _ratios(results: Sequence[PointResults], styles: Styles) -> list[Chart | None]:
    """Speed in each precision, and work per energy for each kind of energy that was measured in it, side by side."""
    ranked = ranked_points(results)
    charts = []
    for path, words, name in ((PER_DEVICE, "Speed per device", "speed_up"), (WORK, "Work per energy", "energy_ratio")):
        of_energy = path == WORK
        groups = [group for group in kinds_alike(ranked, of_energy).items() if "Q0" not in group[0]]
        for index, (kind, mine) in enumerate(groups):
            title = f"{words} ({kind})" if of_energy or len(groups) > 1 else words
            charts.append(ratios(mine, path, title, f"{name}_{index}", styles))
    return charts


class Quality(NamedTuple):
    """How the energy of one system's runs was measured: its kinds, and the worst case of each rule."""

    system: str
    kinds: str
    sources: list[str]
    rules: list[Rule]


def _quality(records: Sequence[Record]) -> list[Quality]:
    found = []
    good = [record for record in records if record["status"] == "ok" and record.get("energy")]
    for system in dict.fromkeys(record["system"] for record in good):
        mine = [record for record in good if record["system"] == system]
        worst: dict[str, Rule] = {}
        for record in mine:
            for rule in energy_rules(record):
                known = worst.setdefault(rule.name, rule)
                if known.kept is not False and rule.kept is not True:
                    worst[rule.name] = rule
        sources = dict.fromkeys(
            f"{channel['name']}: {channel.get('source', 'unknown')}, energy by {channel.get('method', 'unknown')}"
            for record in mine
            for channel in record["energy"]["channels"]
        )
        kinds = dict.fromkeys(kind for record in mine if (kind := energy_kind(record)))
        found.append(Quality(system, " and ".join(kinds), list(sources), list(worst.values())))
    return found


def _origins(records: Sequence[Record]) -> list[list[str]]:
    """Software and firmware behind the records, each combination once."""
    found: dict[tuple[str, ...], None] = {}
    for record in records:
        origin = record.get("provenance") or {}
        for node in origin.get("nodes") or ([origin] if origin else []):
            packages = ", ".join(
                f"{name} {version}" for name, version in (origin.get("packages") or {}).items() if version
            )
            commit = str(origin.get("git_commit") or "unknown")[:12] + (
                " with changes" if origin.get("git_dirty") else ""
            )
            found[
                record["system"],
                str(node.get("hostname") or "unknown"),
                str(node.get("cpu") or node.get("architecture") or "unknown"),
                str(node.get("kernel") or "unknown"),
                _devices(node.get("devices")),
                f"Python {origin.get('python', 'unknown')}, {packages}",
                " ".join(filter(None, [origin.get("container"), origin.get("container_digest")])) or "none",
                commit,
            ] = None
    header = ["system", "node", "processor", "kernel", "devices and firmware", "software", "container", "code"]
    return [header, *map(list, found)]


def _devices(devices: Any) -> str:
    if not isinstance(devices, list):
        return ""
    facts = (
        "name",
        "driver_version",
        "vbios_version",
        "power.limit",
        "clocks.max.sm",
        "ecc.mode.current",
        "mig.mode.current",
    )
    texts = [
        ", ".join(f"{name} {device[name]}" if name != "name" else str(device[name]) for name in facts if name in device)
        for device in devices
        if isinstance(device, dict)
    ]
    return "; ".join(f"{texts.count(text)} x {text}" for text in dict.fromkeys(texts) if text)


def _commands(sections: Sequence[Section]) -> list[tuple[str, str]]:
    """For each point the command line of its first run."""
    found = []
    for section in sections:
        for one in section.results:
            command = (one.any.get("provenance") or {}).get("command")
            if isinstance(command, list):
                found.append((f"{one.system}: {one.point}", shlex.join(map(str, command))))
    return found


class Decision(NamedTuple):
    """Assessment of the results against the requirements."""

    systems: list[str]
    items: list[tuple[str, list[Cell]]]
    counts: list[str]
    failed: set[str]  # systems that fail a requirement
    rankings: list[tuple[Ranked, list[str], list[list[str]]]]  # with its sentences and its table
    scores: list[list[str]]  # of all rankings
    form: str  # how a score is made of its parts
    beyond: list[str]


def decide(
    results: Sequence[PointResults], requirements: Requirements, costs: Costs | None, skipped: Sequence[Skipped] = ()
) -> Decision:
    """Return verdicts and scores; raises RecordError where the requirements do not fit the results."""
    verdicts = accept(results, requirements, skipped) if requirements.must else []
    currency = costs.currency if costs else ""
    found = scores(results, requirements, costs, verdicts)
    rankings = [(one, ranking_words(one, verdicts), score_rows(one, currency)) for one in found]
    systems = dict.fromkeys(one.system for one in results)
    reasons = {system: alike([one for one in skipped if one.may_be_of(system)]) for system in systems}
    missing = [f"{system}: runs are missing: {'; '.join(words)}." for system, words in reasons.items() if words]
    return Decision(
        *matrix(verdicts),
        [*counts(verdicts), *missing],
        {one.system for one in verdicts if one.outcome is Outcome.FAILED},
        rankings,
        ranking_rows(found),
        form_of_score(requirements, found),
        beyond_measured(found),
    )


def _render(
    records: Sequence[Record],
    skipped: Sequence[str],
    sections: Sequence[Section],
    costs: Costs | None,
    decision: Decision | None,
) -> str:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {function.__name__: function for function in OF_A_SECTION}
    points = [one for section in sections for one in section.results]
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        sections=sections,
        summary=summary_rows([(section.title, section.results) for section in sections]),
        decision=decision,
        disturbed=[words for section in sections for group in section.groups for words in disturbed_words(group)],
        deviations=deviations_once(points),
        energies_apart={section.title: energies_apart(section.results) for section in sections},
        quality=_quality(records),
        grades=GRADES,
        skipped=alike(skipped),
        commands=_commands(sections),
        **_about_records(records),
        **_about_costs(sections, costs, decision.failed if decision else ()),
        **_about_published(sections),
    )


def _about_records(records: Sequence[Record]) -> dict[str, Any]:
    created = [(record.get("provenance") or {}).get("created") for record in records]
    return {
        "runs": len(records),
        "systems": list(dict.fromkeys(record["system"] for record in records)),
        "dates": sorted(str(date)[:10] for date in created if date),
        "failures": failures_once(records),
        "origins": _origins(records),
        "files": [(record["file"]["path"], record["file"]["sha256"]) for record in records if "file" in record],
    }


def _about_costs(sections: Sequence[Section], costs: Costs | None, failed: Collection[str]) -> dict[str, Any]:
    if costs is None:
        return {"costs": [], "cost_words": [], "assumptions": []}
    return {
        "costs": cost_rows([section.results for section in sections], costs),
        "cost_words": [cost_words(section.results, costs, failed) for section in sections],
        "assumptions": costs.assumptions(),
    }


def _about_published(sections: Sequence[Section]) -> dict[str, Any]:
    every = [one for section in sections for one in section.published]
    return {
        "published_series": list(dict.fromkeys(one.label for one in every)),
        "published_sources": list(dict.fromkeys((one.figure.source, one.figure.note) for one in every)),
    }


def _browser(page: Path) -> str:
    found = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if found is None:
        raise RecordError(
            f"{page}: a PDF needs a browser that prints, one of {', '.join(BROWSERS)}: "
            "install one, or write report.html and print it elsewhere"
        )
    return found


def write_pdf(text: str, page: Path) -> None:
    """Print the page with a browser; raises RecordError without one, or where it fails."""
    browser = _browser(page)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "report.html"
        source.write_text(text, encoding="utf-8")
        printed = Path(folder) / "report.pdf"  # under this name, whatever the ending's case
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            f"--user-data-dir={folder}/profile",
            "--no-pdf-header-footer",
        ]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []  # which Chromium refuses to root
        command += [f"--print-to-pdf={printed}", source.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PDF_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise RecordError(f"{page}: {browser} did not print it within {PDF_TIMEOUT_S} s") from error
        if done.returncode or not printed.exists():
            words = (done.stderr.strip() or "no message").splitlines()[-1]
            raise RecordError(f"{page}: {browser} could not print it: {words}")
        shutil.copyfile(printed, page)
