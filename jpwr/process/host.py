"""Identity of this node, for traces and profiles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

UNKNOWN_US = 16_000_000  # maxerror of a clock that nothing sets: NTP_PHASE_LIMIT of Linux, include/linux/timex.h


def text_of(path: Path) -> str:
    """Return the file's text without white space at both ends; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def boot_id() -> str:
    """Return the kernel's id of its last boot; empty if unavailable."""
    return text_of(Path("/proc/sys/kernel/random/boot_id"))


def node_name() -> str:
    """Return this node's name, from Slurm if it started us, as that is the same inside and outside of a container."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def clock_error_s() -> float | None:
    """Return the most by which the wall clock is wrong, as the kernel knows it from the service that sets the clock.

    The maxerror of adjtimex(2), in seconds; None without a service. It grows by 500 ppm from one setting to the next.
    """
    import ctypes  # not needed to print help

    long = ctypes.c_long
    known = (long * 64)()  # struct timex: modes, 0 to read alone, offset, freq, maxerror in microseconds, and others
    try:
        state = ctypes.CDLL(None).adjtimex(known)
    except (AttributeError, OSError):  # not Linux
        return None
    return known[3] / 1e6 if state >= 0 and known[3] < UNKNOWN_US else None


def described(epoch_offset_s: float) -> dict[str, Any]:
    """Return the node, its boot and the offset of its clock in seconds, as keys of a trace or profile."""
    error_s = clock_error_s()
    known = {} if error_s is None else {"clock_error_s": error_s}
    return {"hostname": node_name(), "boot_id": boot_id(), "epoch_offset_s": epoch_offset_s, **known}
