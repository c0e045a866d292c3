"""Traces on disk: streamed as CSV, and read back, also after a crash.

The first line is a comment with all that is known of the run as JSON, the second names the columns, and then a row
per sample. A field that is empty was not read in that row, `nan` is a reading that failed. An event is a comment line
between the rows. Every line is handed to the kernel when it is made.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Iterator, NamedTuple, Sequence, TextIO

from jpwr.channel import ChannelInfo, Scope
from jpwr.errors import TraceError
from jpwr.trace import Event, Trace

FORMAT = 1
HEADER = "# jpwr-trace "
EVENT = "# event "


class Row(NamedTuple):
    """One row of a trace: None is a channel that was not read."""

    time_s: float
    power_w: list[float | None]
    energy_j: list[float | None]


class CsvWriter:
    """A sink that appends each row to a file. An older file of that name is kept as NAME.old.

    When the file cannot be written to any more, as on a full disk, that is said once and the run goes on: `failed`.
    """

    def __init__(self, path: Path, channels: Sequence[ChannelInfo], meta: dict[str, Any]) -> None:
        self.path = path
        self.failed = False
        self._with_counter = [info.has_counter for info in channels]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                path.replace(f"{path}.old")
            self._file = open(path, "w", buffering=1)
            described = [dict(info._asdict(), scope=info.scope.value) for info in channels]
            self._file.write(HEADER + json.dumps({"format": FORMAT, **meta, "channels": described}) + "\n")
            self._file.write(",".join(_columns(channels)) + "\n")
        except OSError as error:
            raise TraceError(
                f"the trace cannot be written to {path} ({error.strerror}): choose another folder with --df-out"
            ) from error

    def append(self, time_s: float, power_w: Sequence[float | None], energy_j: Sequence[float | None]) -> None:
        fields = [f"{time_s:.6f}"]
        for has_counter, power, energy in zip(self._with_counter, power_w, energy_j):
            fields.append("" if power is None else f"{power:.3f}")
            if has_counter:
                fields.append("" if power is None or energy is None else f"{energy:.6f}")
        self._write(",".join(fields) + "\n")

    def event(self, name: str, time_s: float, **details: Any) -> None:
        self._write(EVENT + json.dumps({"event": name, "time_s": time_s, **details}) + "\n")

    def _write(self, line: str) -> None:
        if self.failed:
            return
        try:
            self._file.write(line)
        except OSError as error:
            self.failed = True
            print(
                f"jpwr: the trace {self.path} cannot be written any more ({error.strerror}): what was written so far "
                "is kept, and the command goes on",
                file=sys.stderr,
            )

    def __enter__(self) -> CsvWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except OSError:
            self.failed = True  # the rest of a line that did not fit was said to be lost


def _columns(channels: Sequence[ChannelInfo]) -> list[str]:
    columns = ["time_s"]
    for info in channels:
        columns.append(f"{info.name}.power_w")
        if info.has_counter:
            columns.append(f"{info.name}.energy_j")
    return columns


def read_trace(path: Path) -> Trace:
    """Read a trace back. A last line that was cut short is left out; anything else that is wrong raises TraceError."""
    with open_trace(path) as reader:
        trace = Trace(reader.channels, reader.meta)
        for entry in reader:
            if isinstance(entry, Event):
                trace.event(entry.name, entry.time_s, **entry.details)
            else:
                trace.append(*entry)
    return trace


class open_trace:  # noqa: N801 - used as a function is
    """A trace to go through row by row, in constant memory: `with open_trace(path) as reader: for entry in reader`.

    Raises TraceError for a file that is no trace, and for a line that is damaged unless it is a cut last one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: TextIO = open(path, errors="replace")
            self._number = 0
            header = self._line()
            if header is None or not header.startswith(HEADER) or self._line() is None:
                self._file.close()
                raise TraceError(
                    f"{path} is not a trace of jpwr: its first line does not begin with '{HEADER.strip()}'"
                )
        except OSError as error:
            raise TraceError(f"{path} cannot be read: {error}") from error
        try:
            meta = json.loads(header[len(HEADER) :])
            if meta.pop("format") != FORMAT:
                raise TraceError(
                    f"{path} has a trace format that this version does not know: use the jpwr that wrote it"
                )
            self.channels = [ChannelInfo(**dict(one, scope=Scope(one["scope"]))) for one in meta.pop("channels")]
            self.meta: dict[str, Any] = meta
        except (ValueError, KeyError, TypeError) as error:
            raise TraceError(f"{path} is damaged in line 1: {error}") from error

    def _line(self) -> str | None:
        """The next whole line: one without its newline may be half a line."""
        line = self._file.readline()
        self._number += 1
        return line[:-1] if line.endswith("\n") else None

    def __enter__(self) -> open_trace:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Row | Event]:
        expected = len(_columns(self.channels))
        while True:
            line = self._line()
            if line is None:
                return
            try:
                yield self._event(line) if line.startswith(EVENT) else self._row(line.split(","), expected)
            except (ValueError, KeyError, TypeError) as error:
                raise TraceError(f"{self.path} is damaged in line {self._number}: {error}") from error

    def _event(self, line: str) -> Event:
        details = json.loads(line[len(EVENT) :])
        return Event(details.pop("event"), details.pop("time_s"), details)

    def _row(self, fields: Sequence[str], expected: int) -> Row:
        if len(fields) != expected:
            raise ValueError(f"{len(fields)} columns where {expected} are expected")
        row = Row(float(fields[0]), [], [])
        at = 1
        for info in self.channels:
            width = 2 if info.has_counter else 1
            power, energy = _numbers(fields[at : at + width])
            row.power_w.append(power)
            row.energy_j.append(energy)
            at += width
        return row


def _numbers(fields: Sequence[str]) -> tuple[float | None, float | None]:
    numbers = [float(field) if field else None for field in fields]
    return numbers[0], numbers[1] if len(numbers) > 1 else None
