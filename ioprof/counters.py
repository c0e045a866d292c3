"""Reader of the counters that preload.c keeps for a process in a shared file.

The file consists of blocks. The first is the header. The others contain records of files, with variable length, or
stretches: the reads of one thread from one file within 10 ms. Numbers are in the machine's byte order.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Iterator

from ioprof.counts import FileCounts, ProcessCounts, Stretch, Stretches

MAGIC = b"ioprof1\0"
BLOCK_BYTES = 65536
NS = 1e-9

HEADER = struct.Struct("=8s10Q2048s")
BLOCK = struct.Struct("=II")
FILE = struct.Struct("=II9Q10QQ")
STRETCH = struct.Struct("=II4Q")
FILES, READS = 1, 2  # kinds of blocks


def read_counters(path: Path) -> ProcessCounts | None:
    """Return the counters of a process, which may be running or killed; None if it has counted nothing yet."""
    data = path.read_bytes()
    if len(data) < BLOCK_BYTES or not data.startswith(MAGIC):
        return None
    _, pid, parent, begin, loader, blocks, *others, command = HEADER.unpack_from(data)
    files: list[FileCounts] = []
    stretches = Stretches()
    for at in range(BLOCK_BYTES, min(blocks * BLOCK_BYTES, len(data)), BLOCK_BYTES):
        kind, used = BLOCK.unpack_from(data, at)
        if kind == FILES:
            files.extend(_files(data, at + BLOCK.size, used))
        elif kind == READS:
            most = (BLOCK_BYTES - BLOCK.size) // STRETCH.size
            for one in _stretches(data, at + BLOCK.size, min(used, most)):
                stretches.append(one)
    other_reads, other_bytes, other_ns, lost_files, lost_stretches = others
    words = os.fsdecode(command.rstrip(b"\0").replace(b"\0", b" "))
    return ProcessCounts(
        *(pid, parent, begin * NS, words, loader, other_reads, other_bytes, other_ns * NS, lost_files, lost_stretches),
        files,
        stretches,
    )


def _files(data: bytes, at: int, used: int) -> Iterator[FileCounts]:
    end = at + used
    while at < end:
        record_bytes, _, *numbers = FILE.unpack_from(data, at)
        opens, reads, size, read_ns, open_ns, sequential, maps, mapped, largest, *sizes, path_bytes = numbers
        path = os.fsdecode(data[at + FILE.size : at + FILE.size + path_bytes])
        yield FileCounts(
            *(path, opens, reads, size, read_ns * NS, open_ns * NS, sequential, maps, mapped, largest), tuple(sizes)
        )
        at += record_bytes


def _stretches(data: bytes, at: int, count: int) -> Iterator[Stretch]:
    for file, reads, begin, end, size, busy in STRETCH.iter_unpack(data[at : at + count * STRETCH.size]):
        if begin and end:  # otherwise the process ended while it wrote the record
            yield Stretch(file, begin * NS, end * NS, reads, size, busy * NS)
