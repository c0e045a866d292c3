"""Regions: parts of a run that a program marks, so that their energy comes out by name.

A program under the command `jpwr` appends a line to the file named in $JPWR_MARKS, in any language:

    begin NAME            or   begin NAME @SECONDS
    end NAME              or   end NAME @SECONDS

SECONDS are of the node's monotonic clock; without them the moment counts at which the line is seen. In Python,
`with jpwr.region("name"):` does that, and also serves under a PowerMonitor of the same process.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import Callable, Iterator, NamedTuple

MARKS_VARIABLE = "JPWR_MARKS"
KINDS = {"begin": "region_begin", "end": "region_end"}
POLL_S = 0.01  # where the kernel cannot tell that the file has grown
WAIT_S = 1.0  # where it can, this is but a precaution
IN_MODIFY = 2  # inotify(7)


class Mark(NamedTuple):
    """One line of the file."""

    event: str  # region_begin or region_end
    region: str
    time_s: float | None  # None: the moment at which it is seen


@contextmanager
def region(name: str) -> Iterator[None]:
    """Mark what the block does as a region. Does nothing where no sampler runs; regions may lie in each other."""
    _mark("begin", name)
    try:
        yield
    finally:
        _mark("end", name)


def _mark(kind: str, name: str) -> None:
    line = f"{kind} {name} @{time.monotonic():.6f}\n"
    sampler = sys.modules.get("jpwr.sampler")  # who has not imported it has no monitor
    monitors = sampler.active_monitors() if sampler else []
    for monitor in monitors:
        monitor.mark(KINDS[kind], name)
    path = os.environ.get(MARKS_VARIABLE)
    if path and not monitors:
        with open(path, "a") as file:
            file.write(line)


def parse_mark(line: str) -> Mark:
    """Raises ValueError for a line that is no mark."""
    kind, _, rest = line.strip().partition(" ")
    name, at, seconds = rest.rpartition(" @")
    if not at:
        name, seconds = rest, ""
    if kind not in KINDS or not name.strip():
        raise ValueError(f"'{line.strip()}' is no mark: a line is 'begin NAME' or 'end NAME'")
    return Mark(KINDS[kind], name.strip(), float(seconds) if seconds else None)


class MarkReader:
    """Follows the file of marks for as long as it is run."""

    def __init__(self, path: str, on_mark: Callable[[Mark], None], warn: Callable[[str], None]) -> None:
        self.path = path
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
        self._file = open(path)
        self._on_mark = on_mark
        self._warn = warn
        self._warned = False
        self._rest = ""

    def run(self, stopped: Callable[[], bool]) -> None:
        """Wait for lines and hand them on, until stopped."""
        wait = _waiter(self.path)
        while not stopped():
            self.read()
            wait()

    def read(self) -> None:
        """Hand on what is new."""
        text = self._file.read()
        if not text:
            return
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            try:
                self._on_mark(parse_mark(line))
            except ValueError as error:
                if not self._warned:
                    self._warn(f"a line in ${MARKS_VARIABLE} is left out: {error}")
                self._warned = True

    def close(self) -> None:
        self._file.close()
        os.unlink(self.path)  # noqa: PTH108 - pathlib is slower to start


def _waiter(path: str) -> Callable[[], object]:
    """A function that returns when the file has grown, or after a while."""
    try:
        import ctypes
        import select

        libc = ctypes.CDLL(None, use_errno=True)
        notify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if notify < 0 or libc.inotify_add_watch(notify, os.fsencode(path), IN_MODIFY) < 0:
            raise OSError("no inotify")
    except (ImportError, OSError, AttributeError):
        return lambda: time.sleep(POLL_S)

    def wait() -> None:
        if select.select([notify], [], [], WAIT_S)[0]:
            os.read(notify, 65536)

    return wait
