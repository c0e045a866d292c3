"""Identity of this node, for traces and profiles."""

from __future__ import annotations

import os
from typing import Any


def boot_id() -> str:
    """Return the kernel's id of its last boot; empty if unavailable."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def described(epoch_offset_s: float) -> dict[str, Any]:
    """Return the node, its boot and the offset of its clock in seconds, as keys of a trace or profile."""
    hostname = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    return {"hostname": hostname, "boot_id": boot_id(), "epoch_offset_s": epoch_offset_s}
