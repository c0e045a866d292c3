"""Data types for a command's reads, independent of the source of the numbers."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, Iterator, NamedTuple

# Of a read, by the bytes that it returned: Darshan's classes, in powers of 2. The last is of all that is larger.
SIZE_CLASSES = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")


class FileCounts(NamedTuple):
    """Reads of one file by one process."""

    path: str  # as the kernel has it; bytes that are no UTF-8 as in os.fsdecode
    opens: int
    reads: int  # with those that returned 0 bytes at the end
    bytes: int
    read_s: float  # in reads, over all threads
    open_s: float
    sequential_reads: int  # that began where the one before had ended, by the same open file
    maps: int
    mapped_bytes: int  # asked for; whether they were read, nobody counts
    size_bytes: int  # the most that it was when it was opened
    sizes: tuple[int, ...]  # reads by SIZE_CLASSES


class Stretch(NamedTuple):
    """Reads of one thread from one file in short time."""

    file: int  # its place among the process's files
    begin_s: float  # of the first one; CLOCK_MONOTONIC
    end_s: float  # of the last one
    reads: int
    bytes: int
    busy_s: float  # in those reads


class Stretches:
    """Many of them in little memory: 44 bytes each."""

    def __init__(self) -> None:
        self._columns: list[array[Any]] = [array(kind) for kind in "IddLQd"]

    def append(self, one: Stretch) -> None:
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
    loader_bytes: int  # that the kernel had counted for its first thread before the library was there
    other_reads: int  # of pipes, sockets and devices
    other_bytes: int
    other_s: float
    lost_files: int  # opens of files for which there was no room
    lost_stretches: int
    files: list[FileCounts]
    stretches: Stretches

    @property
    def seen_bytes(self) -> int:
        """All that went through a function that the library knows."""
        return self.other_bytes + sum(file.bytes for file in self.files)


class Coverage(NamedTuple):
    """Bytes that reads of any kind returned: as the kernel counted them, and as they were seen."""

    kernel_bytes: int
    seen_bytes: int
    missing: tuple[str, ...]  # sentences
    notes: tuple[str, ...]  # on what is in neither number

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.seen_bytes / self.kernel_bytes) if self.kernel_bytes else 1.0


@dataclass
class Profile:
    """All that is known of what a command read."""

    about: dict[str, Any]  # command, exit code, node, clock, where the counts come from
    processes: list[ProcessCounts] = field(default_factory=list)
    coverage: Coverage | None = None  # None where nobody counted all
    without_room: int = 0  # processes that could count nothing
