"""Traces on disk: streamed as CSV, and readable after a crash, too.

The first line is a comment with the properties of the run as JSON, the second has the names of the columns, and then
there is a row per moment. An empty field was not read at that moment; `nan` is a failed reading. Each value was read
within `half_s` seconds of `time_s`; an empty `half_s` is below LEAST_HALF_S. An event is a comment line between the
rows. Lines are written without a buffer. Format 1 has no column `half_s`.
"""

from __future__ import annotations

import json
import math
import os
import sys
from array import array
from itertools import chain, compress
from math import isnan
from operator import le
from pathlib import Path
from types import TracebackType
from typing import Any, Iterator, NamedTuple, Sequence

from jpwr.channel import MOST, MOST_W, ChannelInfo, Scope, check_info, check_number
from jpwr.errors import TraceError
from jpwr.messages import log, printable
from jpwr.process.temporary import unnamed_file
from jpwr.stored import Store
from jpwr.trace.files import HEADER, create_trace
from jpwr.trace.trace import STATUS, Column, Event, Row, Trace

FORMAT = 2
WITHOUT_HALF = 1  # the format without the column half_s
LEAST_HALF_S = 1e-4  # readings within twice this time share a row; at 1 kW, 0.1 J
EVENT = "# event "
MOST_LINE = 2**24  # longest line of a trace, in characters
BLOCK = 2**17  # characters that are read at a time: some hundred rows of 8 devices
POWER = ".power_w"  # end of the name of a column of watts
NUMBERS = {"interval_s", "epoch_offset_s", "clock_error_s"}  # optional keys of the header


class CsvWriter:
    """Sink that appends rows to a file; create_trace() describes how an older trace is kept.

    Without a path, the file is temporary and has no name. `path` is the actual path, which may differ from the given
    one if another sampler uses the folder. If the file can no longer be written, as on a full disk, that is reported
    once, `failed` is set and the run continues. Raises TraceError if the file cannot be created.
    """

    def __init__(self, path: Path | None, channels: Sequence[ChannelInfo], meta: dict[str, Any]) -> None:
        self.failed = False
        self._is_column = [is_one for info in channels for is_one in (True, info.has_counter)]
        self._forms: list[str] = []
        for info in channels:
            self._forms += ["%.3f", "%.6f"] if info.has_counter else ["%.3f"]
        self._all_forms = ",".join(self._forms)
        described = [dict(info._asdict(), scope=info.scope.value) for info in channels]
        header = HEADER + json.dumps({"format": FORMAT, **meta, "channels": described}) + "\n"
        header += ",".join(_columns(channels)) + "\n"
        try:
            if path is None:
                file = unnamed_file()
                os.write(file, header.encode())
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path, file = create_trace(path, header)
            self._file = open(file, "a", buffering=1, encoding="utf-8")
            self.size = os.fstat(file).st_size  # in bytes
        except OSError as error:
            raise TraceError(
                f"the trace cannot be written to {path or 'a temporary file'} ({error.strerror}): choose another "
                "folder with --df-out"
            ) from error
        self.open_file = Path(f"/proc/self/fd/{file}")  # the file itself, whatever has become of its name
        self.path = path or self.open_file

    def extend(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        self._write("".join(self._line(*row) for row in rows))

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Append an event at a time in seconds."""
        self._write(EVENT + json.dumps({"event": name, "time_s": time_s, **details}) + "\n")

    def _line(
        self, time_s: float, power_w: Sequence[float | None], energy_j: Sequence[float | None], half_s: float
    ) -> str:
        begin = f"{time_s:.6f},{half_s:.6f}," if half_s >= LEAST_HALF_S else f"{time_s:.6f},,"
        values = list(compress(chain.from_iterable(zip(power_w, energy_j)), self._is_column))
        if None not in values:
            return begin + self._all_forms % tuple(values) + "\n"
        fields = ["" if value is None else form % value for form, value in zip(self._forms, values)]
        return begin + ",".join(fields) + "\n"

    def _write(self, lines: str) -> None:
        if self.failed or not lines:
            return
        try:
            self._file.write(lines)
            self.size += len(lines)  # all characters are ASCII
        except OSError as error:
            self.failed = True
            log(
                f"the trace {self.path} can no longer be written ({error.strerror}): the rows so far are kept, "
                "energies are those until now, and the command continues"
            )

    def is_in_place(self) -> bool:
        """Whether `path` is still this file, with all that was written."""
        try:
            there = self.path.stat()
            return os.path.samestat(there, os.fstat(self._file.fileno())) and there.st_size >= self.size
        except OSError:
            return False

    def __enter__(self) -> CsvWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except OSError:
            self.failed = True  # reported by _write() already


def _columns(channels: Sequence[ChannelInfo], with_half: bool = True) -> list[str]:
    columns = ["time_s", "half_s"] if with_half else ["time_s"]
    for info in channels:
        columns.append(info.name + POWER)
        if info.has_counter:
            columns.append(f"{info.name}.energy_j")
    return columns


def read_trace(path: Path, with_status: bool = True, store: Store | None = None) -> Trace:
    """Read a trace from a file; ignore a truncated last line, and raise TraceError for any other damage.

    Its events include the status of devices, unless that is not asked for: a long run has many. Its readings are in
    memory, or in a store.
    """
    with open_trace(path) as reader:
        trace = Trace(reader.channels, reader.meta, store)
        for block in reader.blocks():
            trace.events += [event for event in block.events if with_status or event.name != STATUS]
            trace.extend_columns(block.times_s, block.half_s, block.columns)
    return trace


class Block(NamedTuple):
    """Lines of a trace: their events, and their rows as columns; `half_s` is empty if it is 0 for all."""

    events: list[Event]
    times_s: array[float]
    half_s: Sequence[float]
    columns: list[Column]


class open_trace:  # noqa: N801 - used like a function
    """Reader of a trace, which reads its header at once: `with open_trace(path) as reader: reader.channels`.

    Raises TraceError for a file that is no trace, and for a damaged line unless it is a truncated last one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = 0  # that have been read
        try:
            self._file = open(path, encoding="utf-8", errors="replace")
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self._read_header()
        except BaseException:
            self._file.close()
            raise

    def _read_header(self) -> None:
        header, names = self._line(), self._line()
        if not header.startswith(HEADER) or not header.endswith("\n"):
            raise TraceError(f"{self.path} is not a trace of jpwr: its first line is not '{HEADER.strip()}' with JSON")
        if not names.endswith("\n"):
            raise TraceError(f"{self.path} has no rows, because its sampler was stopped at once: sample again")
        try:
            self.meta = _object(header[len(HEADER) :])
            written = self.meta.pop("format", None)
            if written not in (WITHOUT_HALF, FORMAT):
                raise TraceError(
                    f"{self.path} has an unknown trace format: read it with the version of jpwr that wrote it"
                )
            channels = self.meta.pop("channels", None)
            if not isinstance(channels, list):
                raise ValueError("its channels are not a list")
            self.channels = [_channel(described) for described in channels]
            for name in NUMBERS.intersection(self.meta):
                check_number(self.meta[name], name)
        except ValueError as error:
            raise self._damaged(error) from error
        self._lines = 1
        self._names, self._with_half = names[:-1].split(","), written != WITHOUT_HALF
        if self._names != _columns(self.channels, self._with_half):
            raise self._damaged(ValueError("its columns do not match its channels"))
        self._lines = 2
        self._last_s = [-math.inf] * sum(1 + info.has_counter for info in self.channels)  # time of each column

    def _line(self) -> str:
        try:
            return self._file.readline(MOST_LINE)
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> TraceError:
        return TraceError(f"{self.path} cannot be read ({error.strerror}): give the path of a trace.csv of yours")

    def _damaged(self, error: ValueError) -> TraceError:
        whole = self._lines
        to_do = f"keep its first {whole} lines with 'head -n {whole}'" if whole > 1 else "copy it again from its node"
        return TraceError(f"{self.path} is damaged in line {whole + 1}: {error}; {to_do}")

    def __enter__(self) -> open_trace:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def blocks(self) -> Iterator[Block]:
        """Yield the lines below the header, many at a time; the last line is left out if it has no end."""
        rest = ""
        while len(rest) <= MOST_LINE:
            try:
                text = self._file.read(BLOCK)
            except OSError as error:
                raise self._unreadable(error) from error
            if not text:
                return
            lines, end, rest = (rest + text).rpartition("\n")
            if end:
                yield self._block(lines + end)

    def _block(self, text: str) -> Block:
        """Return whole lines as a block; raise TraceError for the first that is damaged."""
        lines = text.count("\n")
        try:
            block = self._parsed(text)
        except ValueError as error:
            if lines == 1:
                raise self._damaged(error) from error
            for line in text[:-1].split("\n"):
                self._block(line + "\n")
            raise AssertionError("one of the lines is damaged") from error
        self._lines += lines
        return block

    def _parsed(self, text: str) -> Block:
        """Return whole lines as a block; raise ValueError, and change nothing, if one of them is damaged."""
        events: list[Event] = []
        if EVENT in text:
            every = text[:-1].split("\n")
            events = [_event(line[len(EVENT) :]) for line in every if line.startswith(EVENT)]
            text = "".join([f"{line}\n" for line in every if not line.startswith(EVENT)])
        width = len(self._names)
        fields = text.replace("\n", ",\n,").split(",")  # the end of each line is a field, too
        rows = len(fields) // (width + 1)
        if fields[width :: width + 1] != ["\n"] * rows or len(fields) != rows * (width + 1) + 1:
            raise ValueError(f"{text.count(',') + 1} columns instead of {width}")
        times_s = _floats(fields[:: width + 1][:rows], -MOST, "the time of a row")
        first, half_s = 1, array("d")
        if self._with_half:
            first, halves = 2, fields[1 :: width + 1]
            if any(halves):
                half_s = _floats([half or "0" for half in halves], 0.0, "the half_s of a row")
        if any(map(isnan, times_s)) or any(map(isnan, half_s)):
            raise ValueError("the time or the half_s of a row is not a number")
        columns = []
        for number, name in enumerate(self._names[first:], first):
            readings = fields[number :: width + 1]
            read = bytes(map(bool, readings)) if "" in readings else b""
            bounds = (0.0, "a power in watts", MOST_W) if name.endswith(POWER) else (-MOST, "a counter in joules", MOST)
            columns.append(Column(_floats(list(filter(None, readings)) if read else readings, *bounds), read))
        self._last_s = self._last_times(times_s, columns)
        return Block(events, times_s, half_s, columns)

    def _last_times(self, times_s: array[float], columns: Sequence[Column]) -> list[float]:
        """Return the columns' last times; raise ValueError unless each column is in order. Rows of lanes may cross."""
        own_s = {
            read: array("d", compress(times_s, read)) if read else times_s for read in {one.read for one in columns}
        }
        found = []
        for column, before_s in zip(columns, self._last_s):
            of_column_s = own_s[column.read]
            if of_column_s and of_column_s[0] < before_s:
                raise ValueError(f"its time goes back from {before_s:.6f} s to {of_column_s[0]:.6f} s")
            found.append(of_column_s[-1] if of_column_s else before_s)
        if not all(all(map(le, one_s, one_s[1:])) for one_s in own_s.values()):
            raise ValueError("a time goes back")
        return found


def _floats(fields: Sequence[str], least: float, what: str, most: float = MOST) -> array[float]:
    """Return the numbers in fields; raise ValueError for one that is not from `least` to `most`, unless it is nan."""
    values = array("d", map(float, fields))
    if values and not (least <= min(values) and max(values) <= most):  # nan compares false
        for value in values:
            if value < least or value > most:
                raise ValueError(f"{what} is {value:g}, which is not between {least:g} and {most:g}")
    return values


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text; raise ValueError for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("its JSON cannot be read") from error
    if not isinstance(found, dict):
        raise ValueError("its JSON is not an object")
    return found


def _channel(described: Any) -> ChannelInfo:
    if not isinstance(described, dict) or not {"name", "scope", "source"} <= set(described):
        raise ValueError("a channel lacks name, scope or source")
    unknown = set(described).difference(ChannelInfo._fields)
    if unknown:
        raise ValueError(f"a channel has the unknown property '{min(unknown)}'")
    info = ChannelInfo(**dict(described, scope=Scope(described["scope"])))
    check_info(info)
    return info


def _event(text: str) -> Event:
    details = _object(text)
    name = details.pop("event", None)
    time_s = details.pop("time_s", None)
    check_number(time_s, "the time of an event")
    if not isinstance(name, str) or (name.startswith("region_") and not isinstance(details.get("region"), str)):
        raise ValueError("an event has no name")
    if "region" in details:
        details["region"] = sys.intern(printable(str(details["region"])))
    return Event(sys.intern(name), time_s, details)
