"""Records on disk: read, checked, and written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
RESULT_NAME = "result.json"
# What a record has from the moment its job is planned; the rest comes when it is known.
NEEDED = {"benchmark": str, "system": str, "model": str, "work_unit": str, "status": str, "layout": dict}

Record = dict[str, Any]


class RecordError(Exception):
    """A file is not a record that can be used: one sentence with what was found and what to do."""


def read_record(path: Path) -> Record:
    """One record; raises RecordError when the file is missing, cut short or something else."""
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise RecordError(f"there is no record {path}: did the job start?") from error
    except (OSError, ValueError) as error:
        raise RecordError(
            f"{path} cannot be read as a record ({error}): leave it out or run the point again"
        ) from error
    if not isinstance(record, dict) or "schema_version" not in record:
        raise RecordError(f"{path} is not a record of this suite: it has no schema_version")
    if record["schema_version"] != SCHEMA_VERSION:
        raise RecordError(
            f"{path} has schema version {record['schema_version']}, this version reads {SCHEMA_VERSION}: "
            "read it with the version that wrote it"
        )
    for key, kind in NEEDED.items():
        if not isinstance(record.get(key), kind):
            raise RecordError(f"{path} has no usable '{key}': it is damaged, or not a record of this suite")
    return record


def write_record(record: Record, path: Path) -> None:
    """Store a record so that a reader sees the old one or the new one, never half of one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    part.replace(path)


def find_records(folders: Iterable[Path]) -> tuple[list[Record], list[str]]:
    """All records below some folders (or given as files), and a sentence on each file that was skipped.

    Raises RecordError for a folder that does not exist.
    """
    records, skipped = [], []
    for folder in folders:
        if not folder.exists():
            raise RecordError(f"{folder} does not exist: give a folder of results, such as jube/llm_run/000000")
        for path in [folder] if folder.is_file() else sorted(folder.rglob(f"*{RESULT_NAME}")):
            try:
                records.append(read_record(path))
            except RecordError as error:
                skipped.append(str(error))
    return records, skipped
