"""The node that this process is on, as traces and profiles name it."""

from __future__ import annotations

import os
from typing import Any


def boot_id() -> str:
    """Return the id that the kernel has given itself at its start, empty where it does not show one."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def described(epoch_offset_s: float) -> dict[str, Any]:
    """Return what tells which node, which start of it and which clock a measurement is of."""
    hostname = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    return {"hostname": hostname, "boot_id": boot_id(), "epoch_offset_s": epoch_offset_s}
