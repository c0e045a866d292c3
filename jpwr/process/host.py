"""Identity of this node, for traces and profiles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def text_of(path: Path) -> str:
    """Return the file's text without white space at both ends; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def boot_id() -> str:
    """Return the kernel's id of its last boot; empty if unavailable."""
    return text_of(Path("/proc/sys/kernel/random/boot_id"))


def described(epoch_offset_s: float) -> dict[str, Any]:
    """Return the node, its boot and the offset of its clock in seconds, as keys of a trace or profile."""
    hostname = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    return {"hostname": hostname, "boot_id": boot_id(), "epoch_offset_s": epoch_offset_s}
