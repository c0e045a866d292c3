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
from record.model import Json
from results.find.folders import runs_of
from results.find.records import RESULT_NAME, read_record

ROW_NAME = "row.txt"


def point_of(run: Path) -> Path:
    """Return the folder of the point of a run, which is in it or in a folder of its own there."""
    run = run.resolve()
    return run.parent if re.fullmatch("run_[0-9]+", run.name) and (run.parent / RESULT_NAME).exists() else run


def write_row(point: Path) -> None:
    """Write the row of a point from the results of its runs."""
    records = [read_record(run / RESULT_NAME) for run in runs_of(point)]
    write_whole(point / ROW_NAME, "".join(f"{name}: {value}\n" for name, value in row_of(records).items()))


def row_of(records: Sequence[Json]) -> dict[str, Any]:
    """Return the row of a point: the medians of its good runs, as `caraml table --repeats` has them, and the status."""
    first, good = records[0], [record for record in records if record["status"] == "ok"]
    unit, layout = first.get("work_unit", ""), first.get("layout") or {}
    sources = {str(record["energy"]["power_source"]) for record in good if record.get("energy")}
    energies = [record.get("energy") or {} for record in good] if len(sources) == 1 else []
    figures = {
        "per_s": _median([record.get("metrics") or {} for record in good], f"{unit}_per_s"),
        "power_w": _median(energies, "avg_power_w"),
        "per_wh": _median(energies, f"{unit}_per_wh"),
    }
    return {
        "model": first.get("model", ""),
        "devices": layout.get("num_devices", ""),
        "batch": layout.get("global_batch_size", ""),
        "work": unit,
        **{name: _text(value) for name, value in figures.items() if value is not None},
        "power_source": " and ".join(sorted(sources)),
        "status": _status(records, len(good)),
    }


def _median(parts: Sequence[Json], key: str) -> float | None:
    """Return the median of a number that all runs have; None otherwise."""
    values = [value for part in parts if (value := part.get(key)) is not None]
    return statistics.median(values) if parts and len(values) == len(parts) else None


def _text(value: float) -> str:
    return f"{value:.1f}" if value >= 100 else f"{value:.4g}"


def _status(records: Sequence[Json], good: int) -> str:
    bad = " and ".join(dict.fromkeys(str(record["status"]) for record in records if record["status"] != "ok"))
    if not bad:
        is_small = any((record.get("metrics") or {}).get("comparable") is False for record in records)
        return "ok, not comparable" if is_small else "ok"
    return f"{len(records) - good} of {len(records)} {bad}" if good else bad
