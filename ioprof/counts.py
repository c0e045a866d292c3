"""Data types for a command's reads, independent of the source of the numbers."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, Iterator, NamedTuple

# Classes of reads by the bytes that they returned, as in Darshan, with powers of 2.
SIZE_CLASSES = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")


class FileCounts(NamedTuple):
    """Reads of one file by one process."""

    path: str  # as in the kernel; bytes that are not UTF-8 as in os.fsdecode
    opens: int
    reads: int  # including those that returned 0 bytes at the end
    bytes: int
    read_s: float  # time in reads, over all threads
    open_s: float
    sequential_reads: int  # reads that began where the previous one of the same open file had ended
    maps: int
    mapped_bytes: int  # requested; it is unknown whether they were read
    size_bytes: int  # largest size at an open
    sizes: tuple[int, ...]  # reads by SIZE_CLASSES


class Stretch(NamedTuple):
    """Reads of one thread from one file within a short time."""

    file: int  # index among the process's files
    begin_s: float  # of the first read; CLOCK_MONOTONIC
    end_s: float  # of the last read
    reads: int
    bytes: int
    busy_s: float  # time in these reads


class Stretches:
    """Compact list of stretches: 44 bytes each."""

    def __init__(self) -> None:
        self._columns: list[array[Any]] = [array(kind) for kind in "IddLQd"]

    def append(self, one: Stretch) -> None:
        """Add a stretch."""
        for column, value in zip(self._columns, one):
            column.append(value)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[Stretch]:
        return map(Stretch._make, zip(*self._columns))


class ProcessCounts(NamedTuple):
    """Reads of one process, since its start, fork or exec."""

    pid: int
    parent: int
    begin_s: float  # CLOCK_MONOTONIC
    command: str
    loader_bytes: int  # counted by the kernel for the first thread before the library was loaded
    other_reads: int  # from pipes, sockets and devices
    other_bytes: int
    other_s: float
    lost_files: int  # opens of files that could not be stored
    lost_stretches: int
    files: list[FileCounts]
    stretches: Stretches

    @property
    def seen_bytes(self) -> int:
        """Bytes that were read by a function that the library counts."""
        return self.other_bytes + sum(file.bytes for file in self.files)


class Coverage(NamedTuple):
    """Bytes of reads of any kind: as counted by the kernel, and as counted by the library."""

    kernel_bytes: int
    seen_bytes: int
    missing: tuple[str, ...]  # sentences on bytes that only the kernel counted
    notes: tuple[str, ...]  # sentences on reads that neither counted

    @property
    def share(self) -> float:
        """Share of the kernel's bytes that were seen, from 0 to 1."""
        return min(1.0, self.seen_bytes / self.kernel_bytes) if self.kernel_bytes else 1.0


@dataclass
class Profile:
    """Reads of a command."""

    about: dict[str, Any]  # command, exit code, node, clock, source of the counts
    processes: list[ProcessCounts] = field(default_factory=list)
    coverage: Coverage | None = None  # None without the kernel's count
    without_room: int = 0  # number of processes that could not store any count
