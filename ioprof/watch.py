"""Watch the processes of a command through the kernel's /proc while they run."""

from __future__ import annotations

import itertools
import math
import os
import struct
import threading
import time
from pathlib import Path
from typing import Callable, NamedTuple

from ioprof.coverage import Watched
from jpwr.process.threads import start
from jpwr.process.tree import descendants, processes

# Times between looks grow, so that they cost a long run little: a process may have hundreds of threads and files.
FIRST_LOOK_S, LONGER, LONGEST_S = 0.25, 1.1, 5.0
LOOKS_AT_FILES = 4  # once in so many looks
PROC = Path("/proc")
RING = "anon_inode:[io_uring]"
PT_INTERP = 3
TICK_S = 0.01  # of the kernel's times of starts


def rchar(path: Path) -> int | None:
    """Return the bytes that the reads of a process or thread returned; None if it is gone or not accessible."""
    try:
        with open(path / "io", "rb") as file:
            return int(file.readline().split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _words(command_line: bytes) -> str:
    """Return a command line without the folder of its program, which may be longer than the part that matters."""
    program, *others = os.fsdecode(command_line.rstrip(b"\0")).split("\0")
    return " ".join([Path(program).name, *others])


class _Program(NamedTuple):
    path: str
    has_library: bool
    is_static: bool


class Watcher:
    """Observer of a command and all processes that it starts, in a thread that runs as long as this process."""

    def __init__(self, pid: Callable[[], int | None], library: Path, counters: Path) -> None:
        self._pid, self._library, self._counters = pid, library.name, counters
        self._seen: dict[int, Watched] = {}
        self._programs: dict[int, _Program] = {}
        self._looking = threading.Lock()
        start(threading.Thread(target=self._watch, name="ioprof-watch", daemon=True))
        self._before_bytes = self._of_children()

    def seen(self) -> list[Watched]:
        """Return the observations of all processes so far."""
        with self._looking:
            self._look(with_files=True)
            return list(self._seen.values())

    def read_bytes(self) -> int:
        """Return the bytes read by children of this process that have started and ended since, and by theirs."""
        return self._of_children() - self._before_bytes

    def _of_children(self) -> int:
        # Linux adds the bytes of a child to the process that waits for it (kernel/exit.c), in /proc/PID/io but not in
        # those of threads. It does the same with threads that have ended, of which this process must have none.
        with self._looking:
            whole = rchar(PROC / "self") or 0
            return whole - sum(rchar(thread) or 0 for thread in (PROC / "self/task").iterdir())

    def _watch(self) -> None:
        pause_s = FIRST_LOOK_S
        for looks in itertools.count():
            time.sleep(pause_s)
            pause_s = min(LONGEST_S, LONGER * pause_s)
            with self._looking:
                self._look(with_files=looks % LOOKS_AT_FILES == 0)

    def _look(self, with_files: bool) -> None:
        pid = self._pid()
        if pid is None:
            return
        tree = {pid} | descendants([pid])
        started = {process.pid: _started_s(process.started_ticks) for process in processes()}
        # Pids of ended processes are reused.
        left = {pid for pid, begun_s in self._begun_s().items() if started.get(pid, math.inf) <= begun_s + TICK_S}
        for pid in tree | left:
            self._look_at(pid, pid not in tree, with_files)

    def _begun_s(self) -> dict[int, float]:
        """Return when each process began to count, in seconds of the monotonic clock."""
        try:
            names = [path.name.partition("-") for path in self._counters.iterdir() if path.name[:1].isdigit()]
        except OSError:
            return {}
        return {int(pid): int(begun_ns) / 1e9 for pid, _, begun_ns in names}

    def _look_at(self, pid: int, is_left: bool, with_files: bool) -> None:
        folder = PROC / str(pid)
        kernel_bytes = rchar(folder)
        try:
            path = os.readlink(folder / "exe")
            if pid not in self._programs or self._programs[pid].path != path:
                self._programs[pid] = _Program(path, self._library in (folder / "maps").read_text(), _is_static(folder))
            command = (folder / "cmdline").read_bytes()
        except (OSError, ValueError, struct.error):
            return  # it has ended, or is not ours
        if kernel_bytes is None or not command:
            return
        program, before = self._programs[pid], self._seen.get(pid)
        self._seen[pid] = Watched(
            pid,
            _words(command),
            kernel_bytes,
            program.has_library,
            program.is_static,
            bool(before and before.has_ring) or (with_files and _has_ring(folder)),
            is_left,
        )


def _started_s(ticks: int) -> float:
    """Return the start of a process in seconds of the monotonic clock, which stands still while the machine sleeps."""
    asleep_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return ticks / os.sysconf("SC_CLK_TCK") - asleep_s


def _has_ring(folder: Path) -> bool:
    try:
        return any(os.readlink(link) == RING for link in (folder / "fd").iterdir())
    except OSError:
        return False


def _is_static(folder: Path) -> bool:
    """Whether the ELF file of a program requests no loader."""
    with open(folder / "exe", "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:5] != b"\x7fELF\x02":
            return False
        order = "<" if head[5] == 1 else ">"
        (segments_at,) = struct.unpack_from(f"{order}Q", head, 32)
        size, count = struct.unpack_from(f"{order}HH", head, 54)
        file.seek(segments_at)
        segments = file.read(size * count)
    kinds = (struct.unpack_from(f"{order}I", segments, at)[0] for at in range(0, len(segments), size))
    return PT_INTERP not in kinds
