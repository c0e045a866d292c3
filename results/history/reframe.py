"""Performance logs in ReFrame's format (version 4): one file per system and point, one line per run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import replacing
from results.history.series import FOLLOWED, identity_of
from results.points.repeats import point_of
from results.record.records import Record
from results.record.values import grouped, value_at

# The fields of ReFrame's own configuration (`handlers_perflog`), of which a record has these.
FIELDS = ("result", "job_completion_time", "info", "jobid", "job_nodelist", "num_tasks")
OF_A_VALUE = ("value", "unit", "ref", "lower_thres", "upper_thres")
PARTITION = "default"


def write_reframe(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write SYSTEM/default/POINT.log for each point below a folder, and return the files."""
    header = "|".join([*FIELDS, *(f"{_plain(quantity)}_{field}" for quantity in FOLLOWED for field in OF_A_VALUE)])
    written = []
    for (system, name), runs in grouped(records, lambda one: (_plain(one.system), _name(one))).items():
        path = folder / system / PARTITION / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write("".join(f"{line}\n" for line in [header, *map(_line, runs)]))
        written.append(path)
    return written


def _name(record: Record) -> str:
    _, point, variant = identity_of(record)
    return _plain("_".join(map(str, (*point, *variant))))


def _plain(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", text).lstrip(".")  # no name leads out of the folder


def _line(record: Record) -> str:
    is_good = record.is_good
    fields: list[Any] = ["pass" if is_good else "fail", record.file.created, str(point_of(record))]
    fields += [value_at(record, "slurm.job_id"), value_at(record, "provenance.hostname"), record.layout.num_devices]
    for one in FOLLOWED.values():
        value = value_at(record, one.path) if is_good else None
        fields += [value, one.of(record.work_unit).heading, 0, None, None]
    return "|".join("null" if one is None else str(one).replace("|", "/") for one in fields)
