"""Performance logs in ReFrame's format (version 4): one file per system and point, one line per run.

The field `display_name`, a test with its parameters, is what the reader of ExCALIBUR's tests needs in addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import replacing
from results.history.series import FOLLOWED, identity_of
from results.record.records import Record
from results.record.values import energy_source, grouped, plain, value_at

# The fields of ReFrame's own configuration (`handlers_perflog`), of which a record has these.
FIELDS = ("result", "job_completion_time", "display_name", "info", "jobid", "job_nodelist", "num_tasks")
OF_A_VALUE = ("value", "unit", "ref", "lower_thres", "upper_thres")
PARTITION = "default"


def write_reframe(records: Sequence[Record], folder: Path) -> list[Record]:
    """Write SYSTEM/default/POINT.log for each point below a folder, and return the runs, which have ended."""
    ended = [one for one in records if one.status != "unfinished"]
    header = "|".join([*FIELDS, *(f"{plain(quantity)}_{field}" for quantity in FOLLOWED for field in OF_A_VALUE)])
    for (system, name), runs in grouped(ended, lambda one: (plain(one.system), _name(one))).items():
        path = folder / system / PARTITION / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write("".join(f"{line}\n" for line in [header, *map(_line, runs)]))
    return ended


def _name(record: Record) -> str:
    _, point, variant = identity_of(record)
    return plain("_".join(map(str, (*point, *variant))))


def _line(record: Record) -> str:
    is_good = record.is_good
    _, point, variant = identity_of(record)
    parameters = {**point._asdict(), "variant": ", ".join(variant)}
    named = "".join(
        f" %{name}={str(value).replace('=', ':').replace('%', 'percent')}" for name, value in parameters.items()
    )
    created = record.file.created or record.provenance.created
    fields: list[Any] = ["pass" if is_good else "fail", created, f"caraml{named}", str(point)]
    fields += [value_at(record, "slurm.job_id"), value_at(record, "provenance.hostname"), record.layout.num_devices]
    left_out = "energy." if energy_source(record).startswith("estimated") else None  # the log cannot label an estimate
    for one in FOLLOWED.values():
        value = value_at(record, one.path) if is_good and not (left_out and one.path.startswith(left_out)) else None
        fields += [value, one.of(record.work_unit).heading, 0, None, None]
    return "|".join("null" if one is None else str(one).replace("|", "/") for one in fields)
