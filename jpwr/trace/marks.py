"""Regions: parts of a run that a program marks, so that their energy comes out by name.

A program under the command `jpwr` appends a line to the file named in $JPWR_MARKS, in any language:

    begin NAME            or   begin NAME @SECONDS
    end NAME              or   end NAME @SECONDS

SECONDS are of the node's monotonic clock; without them the moment counts at which the line is seen. In Python,
`with jpwr.region("name"):` does that, and also serves under a PowerMonitor of the same process.

Whatever is written there, the run goes on: a line that is no mark is left out and counted.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from typing import Callable, Iterator, NamedTuple, Sequence

from jpwr.errors import JpwrError
from jpwr.process import threads
from jpwr.process.private_folder import PrivateFolder
from jpwr.say import printable, short

MARKS_VARIABLE = "JPWR_MARKS"
KINDS = {"begin": "region_begin", "end": "region_end"}
MAX_LINE_BYTES = 4096
CHUNK_BYTES = 65536
MAX_LATE_BYTES = 1 << 24  # read after the command's end: some seconds' work
NAME = "marks"  # of the file
NOT_SEEN = "regions are not seen"
POLL_S = 0.01  # where the kernel cannot tell that the file has grown
PRECAUTION_S = 10.0  # where it can; to look again costs as much CPU time as five readings
WAIT_S = 1.0  # at the end, between two looks at whether there is still patience
IN_MODIFY = 2  # inotify(7)
LATEST_S = 1e12  # of any clock; a trace with far later times is taken for damaged


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
    name = printable(str(name))
    line = f"{kind} {name} @{time.monotonic():.6f}\n"
    sampling = sys.modules.get("jpwr.sampling.monitor")  # who has not imported it has no monitor
    for monitor in sampling.active_monitors() if sampling else []:
        monitor.mark(KINDS[kind], name)
    path = os.environ.get(MARKS_VARIABLE)
    if path:
        # A full disk, or a sampler that is gone with its file, is no reason to end the program.
        with suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(line)


def parse_mark(line: str) -> Mark:
    """Raises ValueError for a line that is no mark, and for a time that is no number of seconds."""
    kind, _, rest = line.strip().partition(" ")
    before, at, seconds = rest.rpartition(" @")
    name = printable((before if at else rest).strip())
    if kind not in KINDS or not name:
        raise ValueError(f"'{short(line.strip())}' is no mark: a line is 'begin NAME' or 'end NAME'")
    return Mark(KINDS[kind], name, _seconds(seconds) if at else None)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not abs(seconds) <= LATEST_S:  # nan is not
        raise ValueError(f"'@{short(text)}' is no time in seconds of the monotonic clock, such as @1234.5")
    return seconds


class MarkReader:
    """Follows the file of marks, in a thread of its own, from start() to stop().

    The file is in a folder that only its owner may look into and that nobody can have put there before. What is handed
    to `on_marks` at once was seen at the same moment. Raises JpwrError where no such folder can be made.
    """

    def __init__(self, on_marks: Callable[[Sequence[Mark]], None], say: Callable[[str], None]) -> None:
        self._on_marks = on_marks
        self._say = say
        self._folder = PrivateFolder(without=NOT_SEEN, file=NAME)
        try:
            self._woken, self._wake = os.pipe()
        except OSError as error:
            self._folder.remove()
            raise JpwrError(f"no more files can be opened ({error.strerror}): {NOT_SEEN}") from error
        self.path = f"{self._folder.path}/{NAME}"
        self._file = self._folder.file
        self._position = 0
        self._rest = b""
        self._too_long = False  # the line that is being read
        self._left_out: Counter[str] = Counter()  # how often, for each reason
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jpwr-marks", daemon=True)

    def start(self) -> None:
        threads.start(self._thread)

    def stop(self, patience: Callable[[], bool] = lambda: True) -> None:
        """Hand on what has been written until now, and remove the file. Where `patience` ends, the rest is left."""
        self._stop.set()
        os.write(self._wake, b".")
        self._thread.join(WAIT_S)
        while self._thread.is_alive() and patience():
            self._thread.join(WAIT_S)
        if (left_out := sum(self._left_out.values())) > len(self._left_out):
            self._say(f"{left_out} lines in ${MARKS_VARIABLE} were left out")
        if not self._is_in_place():
            self._say(f"the command has removed or replaced the file in ${MARKS_VARIABLE}: later marks were not seen")
        self._folder.remove()

    def _run(self) -> None:
        try:
            wait = _waiter(self.path, self._woken)
            while not self._stop.is_set():
                self._read()
                wait(PRECAUTION_S)
            self._read()
            self._hand_on(b"\n")  # there may be a last line without it
        except Exception as error:  # nothing in marks ends a run
            self._say(f"marks are not read any more ({type(error).__name__}: {error})")

    def _read(self) -> None:
        """Hand on what is new, up to the end that the file has now: who writes for ever holds up nothing."""
        end = os.fstat(self._file).st_size
        if end < self._position:  # it was emptied, as by '>' in place of '>>'
            self._position, self._rest, self._too_long = 0, b"", False
        while self._position < end:
            if self._stop.is_set() and end - self._position > MAX_LATE_BYTES:
                self._say(
                    f"the last {end - self._position} bytes in ${MARKS_VARIABLE} are left out: they came too fast"
                )
                self._position, self._rest = end, b""
                return
            data = os.pread(self._file, min(CHUNK_BYTES, end - self._position), self._position)
            if not data:
                return
            self._position += len(data)
            self._hand_on(data)

    def _hand_on(self, data: bytes) -> None:
        marks = list(self._marks_in(data))
        if marks:
            self._on_marks(marks)

    def _marks_in(self, data: bytes) -> Iterator[Mark]:
        # Lines are decoded whole: a character may be cut between two writes.
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._too_long or len(line) > MAX_LINE_BYTES:
                self._leave_out(f"it is longer than {MAX_LINE_BYTES} bytes")
                self._too_long = False
            elif line.strip():
                try:
                    yield parse_mark(line.decode("utf-8", "backslashreplace"))
                except ValueError as error:
                    self._leave_out(str(error))
        self._too_long = self._too_long or len(rest) > MAX_LINE_BYTES
        self._rest = b"" if self._too_long else rest

    def _leave_out(self, reason: str) -> None:
        kind = reason.rpartition("' ")[2]  # without the line's own words
        if kind not in self._left_out:
            self._say(f"a line in ${MARKS_VARIABLE} is left out: {reason}")
        self._left_out[kind] += 1

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), os.lstat(self.path))
        except OSError:
            return False


def _waiter(path: str, woken: int) -> Callable[[float], object]:
    """A function that returns when the file has grown, when there is something in the pipe, or after so many seconds.

    Where the kernel cannot tell that a file has grown, it returns early.
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
