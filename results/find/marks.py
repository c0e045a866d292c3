"""Marks of records that a later version of the suite found wrong: a file above them has the reasons."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from results.files.typed_files import Allowed, Text, read_file

MARKS = "wrong_records.yaml"


@dataclass(frozen=True)
class Mark:
    """Why a run is wrong, and the day and version of the suite that found it."""

    reason: Text
    date: Annotated[str, Allowed(format="date")]
    version: Text


def marks_above(path: Path) -> dict[str, Mark]:
    """Return the marks, by run_id, in files of all folders above a file; raises RecordError for a mistake in one."""
    folders = str(path.absolute()).split("/")[:-1]
    files = ("/".join([*folders[:depth], MARKS]) for depth in range(1, len(folders) + 1))
    found = [Path(file) for file in files if os.path.isfile(file)]  # noqa: PTH113 - for each record; a Path is slow
    return {run: mark for file in found for run, mark in _read(file, file.stat().st_mtime_ns).items()}


@lru_cache(maxsize=8)
def _read(file: Path, _: int) -> dict[str, Mark]:
    marks: dict[str, Mark] = read_file(dict[str, Mark], file, "run")
    return marks
