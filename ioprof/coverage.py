"""Share of the bytes counted by the kernel that were seen, and causes of the rest. Pure arithmetic."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence

from ioprof.counts import Coverage, ProcessCounts

ENOUGH = 0.95
SLACK_BYTES = 65536  # read by the loaders of a few programs
MEGABYTE = 1e6


class Watched(NamedTuple):
    """Observations of a running process from outside."""

    pid: int
    command: str
    kernel_bytes: int  # last value of rchar in /proc/PID/io, including children that it has waited for
    has_library: bool
    is_static: bool
    has_ring: bool  # of io_uring
    is_left: bool  # its parent ended first, so that no other process's count includes it


def coverage(kernel_bytes: int, processes: Sequence[ProcessCounts], watched: Iterable[Watched]) -> Coverage:
    """Compare the reads of processes with the kernel's count.

    `kernel_bytes` is that of the command and its descendants whose parents waited for their end; others are in
    `watched`.
    """
    watched = list(watched)
    total = kernel_bytes + sum(one.kernel_bytes for one in watched if one.is_left)
    seen = sum(seen_by_pid(processes).values())
    found = Coverage(total, seen, (), tuple(_notes(processes, watched)))
    if found.share >= ENOUGH or total - seen < SLACK_BYTES:
        return found
    return found._replace(missing=tuple(_missing(found, processes, watched)))


def seen_by_pid(processes: Sequence[ProcessCounts]) -> dict[int, int]:
    """Return the bytes that each process read, including the loader of its programs."""
    seen: dict[int, int] = {}
    for one in sorted(processes, key=lambda process: process.begin_s):
        before = seen.get(one.pid, 0)  # a process that executes another program keeps its pid
        seen[one.pid] = before + one.seen_bytes + max(0, one.loader_bytes - before)
    return seen


def _missing(found: Coverage, processes: Sequence[ProcessCounts], watched: Sequence[Watched]) -> Iterable[str]:
    seen = seen_by_pid(processes)
    rest = found.kernel_bytes - found.seen_bytes
    for one in watched:
        # The kernel's bytes of a process include those of its children.
        bytes_here = one.kernel_bytes - seen.get(one.pid, 0)
        size = f"{min(bytes_here, rest) / MEGABYTE:,.1f} MB"
        if one.is_static:
            yield f"{size} or more in {_named(one)}, which is linked statically: LD_PRELOAD has no effect on it"
        elif not one.has_library:
            yield (
                f"{size} or more in {_named(one)}, which runs without the library: its environment was cleared, or it "
                "is a setuid program"
            )
        elif bytes_here > (1 - ENOUGH) * one.kernel_bytes and not any(other.pid != one.pid for other in watched):
            yield f"{size} in {_named(one)} by direct system calls, or by a function that is not counted"
            continue
        else:
            continue
        rest -= min(bytes_here, rest)
    if rest > (1 - ENOUGH) * found.kernel_bytes:
        yield (
            f"{rest / MEGABYTE:,.1f} MB by direct system calls, by functions that are not counted, or in processes "
            "that ended too soon to be observed"
        )


def _notes(processes: Sequence[ProcessCounts], watched: Sequence[Watched]) -> Iterable[str]:
    for one in watched:
        if one.has_ring:
            yield (
                f"{_named(one)} has rings of io_uring: reads through them are counted neither by the kernel nor here"
            )
    mapped = sum(file.mapped_bytes for process in processes for file in process.files)
    if mapped:
        yield f"{mapped / MEGABYTE:,.1f} MB were mapped: their reads are neither counted nor timed"


def _named(one: Watched) -> str:
    words = one.command if len(one.command) <= 60 else f"{one.command[:57]}..."
    return f"'{words}' (process {one.pid})"
