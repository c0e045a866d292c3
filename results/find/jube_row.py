"""Row of a point in the table of JUBE, which cannot take the median of runs: a file of lines `NAME: VALUE`.

Standard library alone, as a job writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import write_whole
from record.arithmetic import median_of_all
from record.model import Record
from results.find.folders import runs_of
from results.find.records import RESULT_NAME, read_record

ROW_NAME = "row.txt"


def point_of(run: Path) -> Path:
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
    energies = [record.energy for record in good if record.energy]
    sources = {energy.power_source for energy in energies}
    if len(sources) > 1 or len(energies) < len(good):
        energies = []
    figures = {
        "per_s": median_of_all([record.metrics.number(f"{first.work_unit}_per_s") for record in good]),
        "power_w": median_of_all([energy.number("avg_power_w") for energy in energies]),
        "per_wh": median_of_all([energy.number(f"{first.work_unit}_per_wh") for energy in energies]),
    }
    status = status_of(records)
    if status == "ok" and any(record.metrics.comparable is False for record in records):
        status = "ok, not comparable"
    return {
        "model": first.model,
        "devices": first.layout.num_devices or "",
        "batch": first.layout.global_batch_size or "",
        "work": first.work_unit,
        **{name: _text(value) for name, value in figures.items() if value is not None},
        "power_source": " and ".join(sorted(sources)),
        "status": status,
    }


def _text(value: float) -> str:
    return f"{value:.1f}" if value >= 100 else f"{value:.4g}"


def status_of(records: Sequence[Record]) -> str:
    """Return the outcome of a point's runs, as text."""
    bad = [str(record.status) for record in records if not record.is_good]
    words = " and ".join(dict.fromkeys(bad)) or "ok"
    return f"{len(bad)} of {len(records)} {words}" if 0 < len(bad) < len(records) else words
