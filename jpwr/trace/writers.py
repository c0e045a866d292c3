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
from typing import Any, Iterator, NamedTuple, Sequence, TextIO

from jpwr.channel import MOST, MOST_W, ChannelInfo, Scope, check_info, check_number
from jpwr.errors import TraceError
from jpwr.messages import log, printable
from jpwr.process.private_folder import unnamed_file
from jpwr.stored import Store
from jpwr.trace.files import create_trace
from jpwr.trace.trace import STATUS, Column, Event, Row, Trace

FORMAT = 2
WITHOUT_HALF = 1  # the format without the column half_s
LEAST_HALF_S = 1e-4  # readings within twice this time share a row; at 1 kW, 0.1 J
HEADER = "# jpwr-trace "
EVENT = "# event "
MOST_LINE = 2**24  # longest line of a trace, in characters
BLOCK = 2**17  # characters that are read at a time: some hundred rows of 8 devices
POWER = ".power_w"  # end of the name of a column of watts
COMMAND = {"command_started", "command_ended"}
NUMBERS = {"interval_s", "epoch_offset_s", "clock_error_s", "idle_s"}  # optional keys of the header


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
        for text in reader.blocks():
            block = reader.whole(text)
            if block is None:  # read line by line, to name the line that is damaged
                for entry in reader.entries(text):
                    trace.extend([entry]) if isinstance(entry, Row) else trace.events.append(entry)
                continue
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
    """Iterator over rows and events, in constant memory: `with open_trace(path) as reader: for entry in reader`.

    Raises TraceError for a file that is no trace, and for a damaged line unless it is a truncated last one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = 0
        self._has_more = False  # whether characters follow the last whole line
        try:
            self._file: TextIO = open(path, encoding="utf-8", errors="replace")
        except IsADirectoryError as error:
            raise TraceError(f"{path} is a folder: give the trace in it, such as {path / 'trace.csv'}") from error
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self._read_header()
        except BaseException:
            self._file.close()
            raise

    def _read_header(self) -> None:
        header = self._line()
        if header is None or not header.startswith(HEADER):
            reason = f"its first line does not begin with '{HEADER.strip()}'"
            if header is None:
                reason = "its first line has no end" if self._has_more else "it is empty"
            raise TraceError(f"{self.path} is not a trace of jpwr: {reason}")
        try:
            meta = _object(header[len(HEADER) :])
            written = meta.pop("format", None)
            if written not in (WITHOUT_HALF, FORMAT):
                raise TraceError(
                    f"{self.path} has an unknown trace format: read it with the version of jpwr that wrote it"
                )
            self._with_half = written != WITHOUT_HALF
            channels = meta.pop("channels", None)
            if not isinstance(channels, list):
                raise ValueError("its channels are not a list")
            self.channels = [_channel(described) for described in channels]
            known = [info.name for info in self.channels]
            if twice := [name for name in known if known.count(name) > 1]:
                raise ValueError(f"two of its channels are named '{printable(twice[0])}'")
            for name in NUMBERS.intersection(meta):
                check_number(meta[name], name)
            self.meta: dict[str, Any] = meta
        except ValueError as error:
            raise self._damaged(error) from error
        names = self._line()
        if names is None:
            raise TraceError(f"{self.path} has no rows, because its sampler was stopped at once: sample again")
        self._names = names.split(",")
        if self._names != _columns(self.channels, self._with_half):
            raise self._damaged(ValueError("its columns do not match its channels"))
        self._is_column = [is_one for info in self.channels for is_one in (True, info.has_counter)]
        self._last_s = [-math.inf] * sum(self._is_column)
        self._commands: list[str] = []

    def _line(self) -> str | None:
        """Return the next whole line, or None: a line without its newline may be truncated."""
        try:
            line = self._file.readline(MOST_LINE)
        except OSError as error:
            raise self._unreadable(error) from error
        self._number += 1
        self._has_more = bool(line)
        return line[:-1] if line.endswith("\n") else None

    def _unreadable(self, error: OSError) -> TraceError:
        to_do = "give the path of a trace.csv"
        if isinstance(error, PermissionError):
            to_do = "its owner must let you read it, and look into its folders"
        return TraceError(f"{self.path} cannot be read ({error.strerror}): {to_do}")

    def _damaged(self, error: ValueError) -> TraceError:
        whole = self._number - 1
        to_do = f"keep its first {whole} lines with 'head -n {whole}'" if whole > 1 else "copy it again from its node"
        return TraceError(f"{self.path} is damaged in line {self._number}: {error}; {to_do}")

    def __enter__(self) -> open_trace:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Row | Event]:
        for text in self.blocks():
            yield from self.entries(text)

    def blocks(self) -> Iterator[str]:
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
                yield lines + end

    def entries(self, text: str) -> Iterator[Row | Event]:
        """Yield the rows and events of whole lines."""
        for line in text[:-1].split("\n"):
            self._number += 1
            try:
                entry = _event(line[len(EVENT) :]) if line.startswith(EVENT) else self._row(line.split(","))
                if isinstance(entry, Row):
                    self._check_order(entry)
                else:
                    self._check_commands([entry])
            except ValueError as error:
                raise self._damaged(error) from error
            yield entry

    def whole(self, text: str) -> Block | None:
        """Return whole lines as columns, or None if a line is damaged."""
        lines, events = text.count("\n"), []
        try:
            if EVENT in text:
                every = text[:-1].split("\n")
                events = [_event(line[len(EVENT) :]) for line in every if line.startswith(EVENT)]
                text = "".join([f"{line}\n" for line in every if not line.startswith(EVENT)])
            times_s, half_s, columns = self._parsed(text)
            last_s = self._last_times(times_s, columns)
            self._check_commands(events)
        except ValueError:
            return None
        self._last_s = last_s
        self._number += lines
        return Block(events, times_s, half_s, columns)

    def _parsed(self, text: str) -> tuple[array[float], Sequence[float], list[Column]]:
        """Return times and columns of rows; raise ValueError for a row that _row() refuses."""
        width = len(self._names)
        fields = text.replace("\n", ",\n,").split(",")  # the end of each line is a field, too
        rows = len(fields) // (width + 1)
        if fields[width :: width + 1] != ["\n"] * rows or len(fields) != rows * (width + 1) + 1:
            raise ValueError("the number of columns differs")
        times_s = _floats(fields[:: width + 1][:rows], -MOST, MOST)
        first, half_s = 1, array("d")
        if self._with_half:
            first, halves = 2, fields[1 :: width + 1]
            if any(halves):
                half_s = _floats([half or "0" for half in halves], 0.0, MOST)
        if any(map(isnan, times_s)) or any(map(isnan, half_s)):
            raise ValueError("a time is not a number")
        columns = []
        for number, name in enumerate(self._names[first:], first):
            readings = fields[number :: width + 1]
            read = bytes(map(bool, readings)) if "" in readings else b""
            bounds = (0.0, MOST_W) if name.endswith(POWER) else (-MOST, MOST)
            columns.append(Column(_floats(list(filter(None, readings)) if read else readings, *bounds), read))
        return times_s, half_s, columns

    def _last_times(self, times_s: array[float], columns: Sequence[Column]) -> list[float]:
        """Return the columns' last times after some rows; raise ValueError where _check_order() would."""
        edges_s: dict[bytes, tuple[float, float]] = {}
        is_in_order = all(map(le, times_s, times_s[1:]))
        for read in {column.read for column in columns}:
            own_s = array("d", compress(times_s, read)) if read else times_s
            if not is_in_order and not all(map(le, own_s, own_s[1:])):
                raise ValueError("a time goes back")
            if own_s:
                edges_s[read] = own_s[0], own_s[-1]
        edges = [edges_s.get(column.read) for column in columns]
        if any(edge and edge[0] < last_s for edge, last_s in zip(edges, self._last_s)):
            raise ValueError("a time goes back")
        return [edge[1] if edge else last_s for edge, last_s in zip(edges, self._last_s)]

    def _check_order(self, row: Row) -> None:
        """Raise ValueError unless each reading is later than the last one of its column; rows of lanes may cross."""
        readings = compress(chain.from_iterable(zip(row.power_w, row.energy_j)), self._is_column)
        for index, value in enumerate(readings):
            if value is None:
                continue
            if row.time_s < self._last_s[index]:
                raise ValueError(f"its time goes back from {self._last_s[index]:.6f} s to {row.time_s:.6f} s")
            self._last_s[index] = row.time_s

    def _check_commands(self, events: Sequence[Event]) -> None:
        """Raise ValueError if a command starts or ends for the second time."""
        names = [event.name for event in events if event.name in COMMAND]
        if len({*names, *self._commands}) < len(names) + len(self._commands):
            raise ValueError("a command starts or ends twice, as in two concatenated traces")
        self._commands += names

    def _row(self, fields: Sequence[str]) -> Row:
        if len(fields) != len(self._names):
            raise ValueError(f"{len(fields)} columns instead of {len(self._names)}")
        time_s = float(fields[0])
        check_number(time_s, "the time of a row")
        half_s = float(fields[1] or 0.0) if self._with_half else 0.0
        check_number(half_s, "the half_s of a row")
        if half_s < 0:
            raise ValueError("the half_s of a row is below 0")
        powers_w: list[float | None] = []
        energies_j: list[float | None] = []
        at = 2 if self._with_half else 1
        for info in self.channels:
            width = 2 if info.has_counter else 1
            power, energy = _numbers(fields[at : at + width])
            powers_w.append(power)
            energies_j.append(energy)
            at += width
        return Row(time_s, powers_w, energies_j, half_s)


def _floats(fields: Sequence[str], least: float, most: float) -> array[float]:
    """Return the numbers in fields; raise ValueError for one that is not from `least` to `most`, unless it is nan."""
    values = array("d", map(float, fields))
    if values and not (least <= min(values) and max(values) <= most):  # nan compares false
        known = [value for value in values if not isnan(value)]
        if known and not (least <= min(known) and max(known) <= most):
            raise ValueError("a value is out of bounds")
    return values


def _numbers(fields: Sequence[str]) -> tuple[float | None, float | None]:
    numbers = [float(field) if field else None for field in fields]
    if any(number is not None and abs(number) > MOST for number in numbers):  # nan is not
        raise ValueError(f"a reading is not between -{MOST:g} and {MOST:g}")
    if numbers[0] is not None and (numbers[0] < 0 or numbers[0] > MOST_W):
        raise ValueError(f"a power of {numbers[0]:.3g} W is implausible")
    return numbers[0], numbers[1] if len(numbers) > 1 else None


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
    if not isinstance(described["scope"], str):
        raise ValueError("the scope of a channel is not of type str")
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
