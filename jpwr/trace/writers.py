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
from itertools import chain, compress
from pathlib import Path
from types import TracebackType
from typing import Any, Iterator, Sequence, TextIO

from jpwr.channel import MOST, MOST_W, ChannelInfo, Scope, check_info, check_number
from jpwr.errors import TraceError
from jpwr.messages import log, printable
from jpwr.trace.files import create_trace
from jpwr.trace.trace import Event, Row, Trace

FORMAT = 2
WITHOUT_HALF = 1  # the format without the column half_s
LEAST_HALF_S = 1e-4  # readings within twice this time share a row; at 1 kW, 0.1 J
HEADER = "# jpwr-trace "
EVENT = "# event "
MOST_LINE = 2**24  # longest line of a trace, in characters
COMMAND = {"command_started", "command_ended"}
NUMBERS = {"interval_s", "epoch_offset_s", "idle_s"}  # optional keys of the header


class CsvWriter:
    """Sink that appends rows to a file; create_trace() describes how an older trace is kept.

    `path` is the actual path, which may differ from the given one if another sampler uses the folder. If the file can
    no longer be written, as on a full disk, that is reported once, `failed` is set and the run continues. Raises
    TraceError if the file cannot be created.
    """

    def __init__(self, path: Path, channels: Sequence[ChannelInfo], meta: dict[str, Any]) -> None:
        self.failed = False
        self._is_column = [is_one for info in channels for is_one in (True, info.has_counter)]
        self._forms: list[str] = []
        for info in channels:
            self._forms += ["%.3f", "%.6f"] if info.has_counter else ["%.3f"]
        self._all_forms = ",".join(self._forms)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            described = [dict(info._asdict(), scope=info.scope.value) for info in channels]
            header = HEADER + json.dumps({"format": FORMAT, **meta, "channels": described}) + "\n"
            self.path, file = create_trace(path, header + ",".join(_columns(channels)) + "\n")
            self._file = open(file, "a", buffering=1, encoding="utf-8")
            self._size = os.fstat(file).st_size
        except OSError as error:
            raise TraceError(
                f"the trace cannot be written to {path} ({error.strerror}): choose another folder with --df-out"
            ) from error

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
            self._size += len(lines)  # all characters are ASCII
        except OSError as error:
            self.failed = True
            log(
                f"the trace {self.path} can no longer be written ({error.strerror}): the rows so far are kept, and the "
                "command continues"
            )

    def is_in_place(self) -> bool:
        """Whether `path` is still this file, with all that was written."""
        try:
            there = self.path.stat()
            return os.path.samestat(there, os.fstat(self._file.fileno())) and there.st_size >= self._size
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


def _check_order(row: Row, last_s: list[float]) -> None:
    """Raise ValueError unless each reading is later than the last one of its column; rows of lanes may cross."""
    for index, value in enumerate([*row.power_w, *row.energy_j]):
        if value is None:
            continue
        if row.time_s < last_s[index]:
            raise ValueError(f"its time goes back from {last_s[index]:.6f} s to {row.time_s:.6f} s")
        last_s[index] = row.time_s


def _columns(channels: Sequence[ChannelInfo], with_half: bool = True) -> list[str]:
    columns = ["time_s", "half_s"] if with_half else ["time_s"]
    for info in channels:
        columns.append(f"{info.name}.power_w")
        if info.has_counter:
            columns.append(f"{info.name}.energy_j")
    return columns


def read_trace(path: Path) -> Trace:
    """Read a trace from a file; ignore a truncated last line, and raise TraceError for any other damage."""
    with open_trace(path) as reader:
        trace = Trace(reader.channels, reader.meta)
        for entry in reader:
            if isinstance(entry, Event):
                trace.event(entry.name, entry.time_s, **entry.details)
            else:
                trace.append(*entry)
    return trace


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
        if names.split(",") != _columns(self.channels, self._with_half):
            raise self._damaged(ValueError("its columns do not match its channels"))

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
        expected = len(_columns(self.channels, self._with_half))
        last_s = [-math.inf] * 2 * len(self.channels)
        once = set(COMMAND)
        while True:
            line = self._line()
            if line is None:
                return
            try:
                entry = _event(line[len(EVENT) :]) if line.startswith(EVENT) else self._row(line.split(","), expected)
                if isinstance(entry, Row):
                    _check_order(entry, last_s)
                elif entry.name in COMMAND:
                    if entry.name not in once:
                        raise ValueError("a command starts or ends twice, as in two concatenated traces")
                    once.discard(entry.name)
            except ValueError as error:
                raise self._damaged(error) from error
            yield entry

    def _row(self, fields: Sequence[str], expected: int) -> Row:
        if len(fields) != expected:
            raise ValueError(f"{len(fields)} columns instead of {expected}")
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
        details["region"] = printable(str(details["region"]))
    return Event(name, time_s, details)
