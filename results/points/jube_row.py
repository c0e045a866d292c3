"""Row of a point in the table of JUBE, which cannot take the median of runs: a file of lines `NAME: VALUE`.

Standard library alone, as a job writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import write_whole
from record.model import Record
from record.values import THROUGHPUT, WORK
from results.find.folders import runs_of
from results.find.records import RESULT_NAME, read_record
from results.points.facts import point_of
from results.points.repeats import PointResults

ROW_NAME = "row.txt"
FIGURES = {"per_s": THROUGHPUT, "power_w": "energy.avg_power_w", "per_wh": WORK}


def folder_of_point(run: Path) -> Path:
    """Return the folder of the point of a run, which is in it or in a folder of its own there."""
    run = run.resolve()
    return run.parent if re.fullmatch("run_[0-9]+", run.name) and (run.parent / RESULT_NAME).exists() else run


def write_row(point: Path) -> None:
    """Write the row of a point from the results of its runs."""
    records = [Record.of(read_record(run / RESULT_NAME)) for run in runs_of(point)]
    write_whole(point / ROW_NAME, "".join(f"{name}: {value}\n" for name, value in row_of(records).items()))


def row_of(records: Sequence[Record]) -> dict[str, Any]:
    """Return the row of a point: the medians of its good runs, as `caraml table --repeats` has them, and the status."""
    first, good = records[0], [record for record in records if record.is_good]
    bad = [record for record in records if not record.is_good]
    point = PointResults(first.system, point_of(first), (), good, bad)
    figures = {name: point.value(path) for name, path in FIGURES.items()}
    status = status_of(records)
    if status == "ok" and any(record.metrics.comparable is False for record in records):
        status = "ok, not comparable"
    return {
        "model": first.model,
        "devices": first.layout.num_devices or "",
        "batch": first.layout.global_batch_size or "",
        "work": first.work_unit,
        **{name: _text(value) for name, value in figures.items() if value is not None},
        "power_source": " and ".join(sorted({record.energy.power_source for record in good if record.energy})),
        "status": status,
    }


def _text(value: float) -> str:
    return f"{value:.1f}" if value >= 100 else f"{value:.4g}"


def status_of(records: Sequence[Record]) -> str:
    """Return the outcome of a point's runs, as text."""
    bad = [str(record.status) for record in records if not record.is_good]
    words = " and ".join(dict.fromkeys(bad)) or "ok"
    return f"{len(bad)} of {len(records)} {words}" if 0 < len(bad) < len(records) else words
