"""Regions: parts of a run that a program marks, for their energy by name.

A program under the command `jpwr` appends a line to the file named in $JPWR_MARKS, in any language:

    begin NAME            or   begin NAME @SECONDS
    end NAME              or   end NAME @SECONDS

SECONDS are of the node's monotonic clock; without them, the mark has the moment at which the line is read. In Python,
`with jpwr.region("name"):` does the same, and also works under a PowerMonitor of the same process.

An invalid line is left out and counted; it never ends the run.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import Callable, Iterator, NamedTuple, Sequence

from jpwr.messages import printable, short
from jpwr.process import threads
from jpwr.process.temporary import temporary_file

MARKS_VARIABLE = "JPWR_MARKS"
KINDS = {"begin": "region_begin", "end": "region_end"}
MAX_LINE_BYTES = 4096
CHUNK_BYTES = 65536
MAX_LATE_BYTES = 1 << 24  # read after the command's end, which takes some seconds
NOT_RECORDED = "regions are not recorded"
POLL_S = 0.01  # between two checks of the file without inotify
PRECAUTION_S = 10.0  # between two checks with inotify; a check takes as much CPU time as five readings
WAIT_S = 1.0  # between two calls of `patience` at the end
IN_MODIFY = 2  # inotify(7)
LATEST_S = 1e12  # of any clock: later times are implausible


class Mark(NamedTuple):
    """One line of the file."""

    event: str  # region_begin or region_end
    region: str
    time_s: float | None  # None: the moment at which it is read


@contextmanager
def region(name: str) -> Iterator[None]:
    """Mark the block as a region, which may contain others. Without a sampler, do nothing."""
    mark("begin", name)
    try:
        yield
    finally:
        mark("end", name)


def mark(kind: str, name: str, time_s: float | None = None) -> None:
    """Mark the beginning or end ("begin", "end") of a region, now or at a time of the monotonic clock.

    A sampler around this program reads its sensors at once, so that it has samples at the edges.
    """
    name = printable(str(name))
    line = f"{kind} {name} @{time.monotonic() if time_s is None else time_s:.6f}\n"
    sampling = sys.modules.get("jpwr.sampling.monitor")  # without the module, there is no monitor
    for monitor in sampling.active_monitors() if sampling else []:
        monitor.mark(KINDS[kind], name)
    path = os.environ.get(MARKS_VARIABLE)
    if path:
        # A full disk, or a file that was removed with its sampler, must not end the program.
        with suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(line)


def parse_mark(line: str) -> Mark:
    """Return the mark in a line; raise ValueError for an invalid line or time."""
    kind, _, rest = line.strip().partition(" ")
    before, at, seconds = rest.rpartition(" @")
    name = printable((before if at else rest).strip())
    if kind not in KINDS or not name:
        raise ValueError(f"'{short(line.strip())}' is not a mark: write 'begin NAME' or 'end NAME'")
    return Mark(KINDS[kind], name, _seconds(seconds) if at else None)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not abs(seconds) <= LATEST_S:  # nan is not
        raise ValueError(f"'@{short(text)}' is not a time: write seconds of the monotonic clock, such as @1234.5")
    return seconds


class MarkReader:
    """Reader of the file of marks in a thread of its own, from start() to stop().

    `on_marks` gets the marks that were read at the same moment. Raises JpwrError or OSError if
    the file cannot be made.
    """

    def __init__(self, on_marks: Callable[[Sequence[Mark]], None], log: Callable[[str], None]) -> None:
        self._on_marks = on_marks
        self._log = log
        self.path, self._file = temporary_file(without=NOT_RECORDED)
        self._woken, self._wake = os.pipe()
        self._position = 0
        self._rest = b""
        self._too_long = False  # whether the current line is
        self._left_out = 0  # number of lines
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jpwr-marks", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        threads.start(self._thread)

    def stop(self, patience: Callable[[], bool] = lambda: True) -> None:
        """Read the rest of the file while `patience` returns True, report lines left out, and remove the file."""
        self._stop.set()
        os.write(self._wake, b".")
        self._thread.join(WAIT_S)
        while self._thread.is_alive() and patience():
            self._thread.join(WAIT_S)
        if self._left_out > 1:
            self._log(f"{self._left_out} lines in ${MARKS_VARIABLE} were left out")
        if not self._is_in_place():
            self._log(f"the command has removed or replaced the file in ${MARKS_VARIABLE}: later marks are missing")
        with suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108 - pathlib is slower to start

    def _run(self) -> None:
        try:
            wait = _waiter(self.path, self._woken)
            while not self._stop.is_set():
                self._read()
                wait(PRECAUTION_S)
            self._read()
            self._pass_on(b"\n")  # the last line may have no end
        except Exception as error:  # marks never end a run
            self._log(f"marks are no longer read ({type(error).__name__}: {error})")

    def _read(self) -> None:
        """Read new lines up to the current end of the file, even if it keeps growing."""
        end = os.fstat(self._file).st_size
        if end < self._position:  # it was truncated, as by '>' in place of '>>'
            self._position, self._rest, self._too_long = 0, b"", False
        while self._position < end:
            if self._stop.is_set() and end - self._position > MAX_LATE_BYTES:
                self._log(f"the last {end - self._position} bytes in ${MARKS_VARIABLE} are left out: write fewer marks")
                self._position, self._rest = end, b""
                return
            data = os.pread(self._file, min(CHUNK_BYTES, end - self._position), self._position)
            if not data:
                return
            self._position += len(data)
            self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        marks = list(self._marks_in(data))
        if marks:
            self._on_marks(marks)

    def _marks_in(self, data: bytes) -> Iterator[Mark]:
        # Only whole lines are decoded: a read may end within a character.
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._too_long or len(line) > MAX_LINE_BYTES:
                self._leave_out(f"it is longer than {MAX_LINE_BYTES} bytes: use shorter names")
                self._too_long = False
            elif line.strip():
                try:
                    yield parse_mark(line.decode("utf-8", "backslashreplace"))
                except ValueError as error:
                    self._leave_out(str(error))
        self._too_long = self._too_long or len(rest) > MAX_LINE_BYTES
        self._rest = b"" if self._too_long else rest

    def _leave_out(self, reason: str) -> None:
        if not self._left_out:
            self._log(f"a line in ${MARKS_VARIABLE} is left out: {reason}")
        self._left_out += 1

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), os.lstat(self.path))
        except OSError:
            return False


def _waiter(path: str, woken: int) -> Callable[[float], object]:
    """Return a function that waits until the file has grown, the pipe is readable, or a time in seconds has passed.

    Without inotify, it waits for at most POLL_S.
    """
    import select

    poll = select.poll()
    poll.register(woken, select.POLLIN)
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        notify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if notify < 0 or libc.inotify_add_watch(notify, os.fsencode(path), IN_MODIFY) < 0:
            raise OSError
    except (ImportError, OSError, AttributeError):
        return lambda wait_s: poll.poll(1000 * min(wait_s, POLL_S))
    poll.register(notify, select.POLLIN)

    def wait(wait_s: float) -> None:
        if (notify, select.POLLIN) in poll.poll(1000 * wait_s):
            os.read(notify, CHUNK_BYTES)

    return wait
