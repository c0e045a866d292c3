"""Row of a point in the table of JUBE, which cannot take the median of runs: a file of lines `NAME: VALUE`.

Standard library alone, as a job writes it.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import write_whole
from record.model import Record
from record.part import Part
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
        "per_s": _median([record.metrics for record in good], f"{first.work_unit}_per_s"),
        "power_w": _median(energies, "avg_power_w"),
        "per_wh": _median(energies, f"{first.work_unit}_per_wh"),
    }
    return {
        "model": first.model,
        "devices": first.layout.num_devices or "",
        "batch": first.layout.global_batch_size or "",
        "work": first.work_unit,
        **{name: _text(value) for name, value in figures.items() if value is not None},
        "power_source": " and ".join(sorted(sources)),
        "status": _status(records, len(good)),
    }


def _text(value: float) -> str:
    return f"{value:.1f}" if value >= 100 else f"{value:.4g}"


def _median(parts: Sequence[Part], name: str) -> float | None:
    """Return the median of a number that all runs have; None otherwise."""
    values = [value for part in parts if (value := part.number(name)) is not None]
    return statistics.median(values) if parts and len(values) == len(parts) else None


def _status(records: Sequence[Record], good: int) -> str:
    bad = " and ".join(dict.fromkeys(record.status for record in records if not record.is_good))
    if bad:
        return f"{len(records) - good} of {len(records)} {bad}" if good else bad
    return "ok, not comparable" if any(record.metrics.comparable is False for record in records) else "ok"
