"""Where a result comes from: code, software, machine, job. What cannot be found out is null."""

from __future__ import annotations

import datetime
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
# A list of names, never the whole environment: it may hold secrets.
ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "ROCR_VISIBLE_DEVICES",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_PARTITION",
    "SLURM_NNODES",
)


def collect_provenance(packages: Sequence[str]) -> dict[str, Any]:
    """The origin of this process's results; `packages` are distributions whose versions matter."""
    return {
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": sys.orig_argv,
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": _dirty(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in packages},
        "hostname": socket.gethostname(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu": _first_match("/proc/cpuinfo", r"^model name\s*:\s*(.+)$"),
        "cpus_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_kib": _first_match("/proc/meminfo", r"^MemTotal:\s*(\d+) kB$"),
        "container": os.environ.get("CARAML_IMAGE"),
        "container_digest": os.environ.get("CARAML_IMAGE_DIGEST") or None,
        "exclusive": os.environ.get("CARAML_EXCLUSIVE"),
        "environment": {name: os.environ.get(name) for name in ENVIRONMENT},
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(REPOSITORY), *arguments], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _dirty() -> bool | None:
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return None if changes is None else bool(changes)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _first_match(path: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return None
    return found[1] if found else None
