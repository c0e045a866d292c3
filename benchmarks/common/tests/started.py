"""Programs of workloads as a user starts them: alone, or as workers of one node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from record.derivation import derive
from record.model import Record
from record.part import as_json
from tests.waiting import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[3]


def start(module: str, *flags: str, workers: int = 0, folder: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """Run `python -m` of a module, which may be in a folder; with `workers` as so many processes."""
    spawn = ["benchmarks.common.spawn", "--nproc-per-node", str(workers), "-m"] if workers else []
    environ = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{folder}", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-m", *spawn, module, *flags]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)


def recorded(record: Path, module: str, *flags: str, workers: int = 0) -> dict[str, Any]:
    """Return the record of a run that must be good, and warn of nothing."""
    done = start(module, *flags, "--record", str(record), workers=workers)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Warning" not in done.stderr
    return read_derived(record)


def read_derived(path: Path) -> dict[str, Any]:
    """Return a record with the numbers that follow from it, as those who read it do."""
    return derived(json.loads(path.read_text()))


def derived(record: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a record's file with the numbers that follow from it."""
    found: dict[str, Any] = as_json(derive(Record.of(record)))
    return found
