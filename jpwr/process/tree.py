"""Processes of this machine, from the kernel's tables in /proc."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple

PROC = Path("/proc")


class Process(NamedTuple):
    """One process (proc_pid_stat(5))."""

    pid: int
    state: str  # such as "Z" for one that has ended and that its parent has not waited for
    parent: int
    group: int
    started_ticks: int  # since the boot, in sysconf(_SC_CLK_TCK) per second


def processes(proc: Path = PROC) -> Iterator[Process]:
    """Yield all processes that can be seen: in a container, its own."""
    for folder in proc.glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            # The name in brackets may hold spaces and brackets.
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            yield Process(int(folder.name), fields[0], int(fields[1]), int(fields[2]), int(fields[19]))


def descendants(roots: Iterable[int], proc: Path = PROC) -> set[int]:
    """Return all processes below those of `roots`, without `roots`."""
    parents = {process.pid: process.parent for process in processes(proc)}
    tree = roots = {*roots}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree = tree | more
    return tree - roots
