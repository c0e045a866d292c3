"""Limits of this process by its control groups: CPUs, memory, and the periods in which its CPU quota throttled it.

Reads cgroup v1 (cpu.cfs_quota_us) and v2 (cpu.max) of this process's group and all groups above it; the tightest
limit counts.
https://docs.kernel.org/scheduler/sched-bwc.html, https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from jpwr.process.host import text_of

PROC = Path("/proc/self")
NO_LIMIT_BYTES = 1 << 60  # cgroup v1 reports the largest number of whole pages if there is no limit


class Periods(NamedTuple):
    """Periods of a CPU quota: all that began, and the throttled ones."""

    all: int = 0
    throttled: int = 0


def cpu_quota(proc: Path = PROC) -> float | None:
    """Return the CPU quota of this process's group, in CPUs; None without a limit."""
    found = []
    for group in _groups("cpu", proc):
        quota, _, period = text_of(group / "cpu.max").partition(" ")
        if not quota:
            quota, period = text_of(group / "cpu.cfs_quota_us"), text_of(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):  # no limit: "max" or -1
            found.append(int(quota) / int(period))
    return min(found, default=None)


def memory_limit_bytes(proc: Path = PROC) -> int | None:
    """Return the memory limit of this process's group, in bytes; None without a limit."""
    names = "memory.max", "memory.limit_in_bytes"
    texts = [text_of(group / name) for group in _groups("memory", proc) for name in names]
    return min((int(text) for text in texts if text.isdigit() and int(text) < NO_LIMIT_BYTES), default=None)


def quota_periods(proc: Path = PROC) -> list[Periods]:
    """Return the quota periods of each group until now, that of this process first."""
    found = []
    for group in _groups("cpu", proc):
        counts = dict(line.split(" ", 1) for line in text_of(group / "cpu.stat").splitlines() if " " in line)
        found.append(Periods(int(counts.get("nr_periods", 0)), int(counts.get("nr_throttled", 0))))
    return found


def throttled_percent(windows: Sequence[tuple[Sequence[Periods], Sequence[Periods]]]) -> float:
    """Return the percentage of throttled periods in windows, of the group with the highest.

    A window is what quota_periods() returned at its begin and at its end.
    """
    highest = 0.0
    for edges in zip(*(zip(begin, end) for begin, end in windows)):  # of one group
        began = sum(end.all - begin.all for begin, end in edges)
        throttled = sum(end.throttled - begin.throttled for begin, end in edges)
        highest = max(highest, 100 * throttled / max(1, began))
    return highest


def _groups(controller: str, proc: Path) -> Iterator[Path]:
    """Yield the visible folders of this process's group and of those above it."""
    mounts = [line.split() for line in text_of(proc / "mountinfo").splitlines()]
    for line in text_of(proc / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for fields in mounts:
            root, place, (kind, _, options) = fields[3], fields[4], fields[fields.index("-") + 1 :][:3]
            if kind != ("cgroup" if controllers else "cgroup2") or (
                controllers and controller not in options.split(",")
            ):
                continue
            top = Path(place)
            # In a container the group's path may be that of the host; its folder is then the mount itself.
            below = Path(path).relative_to(root) if Path(root) in (Path(path), *Path(path).parents) else Path()
            for part in (below, *below.parents):
                if (top / part).is_dir():
                    yield top / part
            break
