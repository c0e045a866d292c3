"""One self-contained HTML page: the table, the plots, the failures, and where the numbers come from."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from results import plots, table
from results.records import Record

TEMPLATE = Path(__file__).with_name("report.html.j2")


def write_report(records: Sequence[Record], skipped: Sequence[str], page: Path) -> list[Path]:
    """Write the page, and each plot as a PNG beside it; returns the files written."""
    import jinja2

    page.parent.mkdir(parents=True, exist_ok=True)
    groups = []
    written = []
    for benchmark in sorted({record["benchmark"] for record in records}):
        chosen = [record for record in records if record["benchmark"] == benchmark]
        pictures = []
        for plot in plots.PLOTS:
            picture = page.with_name(f"{page.stem}_{benchmark}_{plot.name}.png")
            picture.write_bytes(plots.draw(plot, chosen, "png"))
            written.append(picture)
            svg = base64.b64encode(plots.draw(plot, chosen, "svg")).decode()
            pictures.append({"title": plot.title, "data": f"data:image/svg+xml;base64,{svg}"})
        header, *body = table.rows(chosen)
        groups.append({"name": benchmark, "header": header, "rows": body, "pictures": pictures})
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page.write_text(
        environment.from_string(TEMPLATE.read_text()).render(
            groups=groups,
            failures=table.failures(records),
            skipped=skipped,
            origins=_origins(records),
            runs=len(records),
        )
    )
    return [page, *written]


def _origins(records: Sequence[Record]) -> list[str]:
    """Code, software and machine behind the records, each combination once."""
    found: dict[str, None] = {}
    for record in records:
        origin = record.get("provenance") or {}
        if not origin:
            continue
        packages = ", ".join(f"{name} {version}" for name, version in origin["packages"].items() if version)
        commit = origin["git_commit"] or "unknown"
        changed = " with local changes" if origin["git_dirty"] else ""
        found[
            f"{record['system']} on {origin['hostname']} ({origin['cpu'] or origin['architecture']}): "
            f"Python {origin['python']}, {packages}; commit {commit}{changed}"
        ] = None
        for channel in (record.get("energy") or {}).get("channels", []):
            kind = "ESTIMATE" if channel["estimated"] else "measurement"
            found[f"{record['system']}, power channel {channel['name']}: {kind}, {channel['source']}"] = None
    return list(found)
