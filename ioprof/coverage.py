"""How much of what the kernel counted was seen, and what became of the rest. Pure arithmetic."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence

from ioprof.counts import Coverage, ProcessCounts

ENOUGH = 0.95
SLACK_BYTES = 65536  # that a few programs' loaders read
MEGABYTE = 1e6


class Watched(NamedTuple):
    """Observations of a process from outside while it ran."""

    pid: int
    command: str
    kernel_bytes: int  # rchar of /proc/PID/io when it was last looked at, with its children that it has waited for
    has_library: bool
    is_static: bool
    has_ring: bool  # of io_uring
    is_left: bool  # its parent has ended before it: nobody adds up what it read


def coverage(kernel_bytes: int, processes: Sequence[ProcessCounts], watched: Iterable[Watched]) -> Coverage:
    """Compare what was seen in processes with what the kernel counted of them all.

    `kernel_bytes` is of the command and of all whose end somebody waited for; what was left behind is in `watched`.
    """
    watched = list(watched)
    total = kernel_bytes + sum(one.kernel_bytes for one in watched if one.is_left)
    seen = sum(seen_by_pid(processes).values())
    found = Coverage(total, seen, (), tuple(_notes(processes, watched)))
    if found.share >= ENOUGH or total - seen < SLACK_BYTES:
        return found
    return found._replace(missing=tuple(_missing(found, processes, watched)))


def seen_by_pid(processes: Sequence[ProcessCounts]) -> dict[int, int]:
    """Bytes that each process was seen to read, with what the loader of its programs read before them."""
    seen: dict[int, int] = {}
    for one in sorted(processes, key=lambda process: process.begin_s):
        before = seen.get(one.pid, 0)  # a process that executes another program goes on counting
        seen[one.pid] = before + one.seen_bytes + max(0, one.loader_bytes - before)
    return seen


def _missing(found: Coverage, processes: Sequence[ProcessCounts], watched: Sequence[Watched]) -> Iterable[str]:
    seen = seen_by_pid(processes)
    rest = found.kernel_bytes - found.seen_bytes
    for one in watched:
        # Of one with the library, what its children read is not told apart.
        bytes_here = one.kernel_bytes - seen.get(one.pid, 0)
        size = f"{min(bytes_here, rest) / MEGABYTE:,.1f} MB"
        if one.is_static:
            yield f"{size} or more in {_named(one)}, which is linked statically: no library can be put before it"
        elif not one.has_library:
            yield (
                f"{size} or more in {_named(one)}, which runs without the library: its environment was cleared, or it "
                "has more rights than its user"
            )
        elif bytes_here > (1 - ENOUGH) * one.kernel_bytes and not any(other.pid != one.pid for other in watched):
            yield f"{size} in {_named(one)} by direct system calls, or by a function that is not looked at"
            continue
        else:
            continue
        rest -= min(bytes_here, rest)
    if rest > (1 - ENOUGH) * found.kernel_bytes:
        yield (
            f"{rest / MEGABYTE:,.1f} MB by direct system calls, by functions that are not looked at, or in processes "
            "that had ended before they were looked at"
        )


def _notes(processes: Sequence[ProcessCounts], watched: Sequence[Watched]) -> Iterable[str]:
    for one in watched:
        if one.has_ring:
            yield (
                f"{_named(one)} has rings of io_uring: what it reads through them, neither the kernel's count nor this "
                "one has"
            )
    mapped = sum(file.mapped_bytes for process in processes for file in process.files)
    if mapped:
        yield f"{mapped / MEGABYTE:,.1f} MB were mapped: what of them was read, and how long that took, is not counted"


def _named(one: Watched) -> str:
    words = one.command if len(one.command) <= 60 else f"{one.command[:57]}..."
    return f"'{words}' (process {one.pid})"
