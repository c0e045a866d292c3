"""Traces on disk: streamed as CSV, and read back, also after a crash.

The first line is a comment with all that is known of the run as JSON, the second names the columns, and then a row
per sample. An event is a comment line between the rows. Every line is handed to the kernel when it is made.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Sequence

from jpwr.channel import ChannelInfo, Scope
from jpwr.errors import TraceError
from jpwr.trace import Trace

FORMAT = 1
HEADER = "# jpwr-trace "
EVENT = "# event "


class CsvWriter:
    """A sink that appends each row to a file. An older file of that name is kept as NAME.old."""

    def __init__(self, path: Path, channels: Sequence[ChannelInfo], meta: dict[str, Any]) -> None:
        self.path = path
        self._with_counter = [info.has_counter for info in channels]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                path.replace(f"{path}.old")
            self._file = open(path, "w", buffering=1)
        except OSError as error:
            raise TraceError(
                f"the trace cannot be written to {path} ({error.strerror}): choose another folder with --df-out"
            ) from error
        described = [dict(info._asdict(), scope=info.scope.value) for info in channels]
        self._file.write(HEADER + json.dumps({"format": FORMAT, **meta, "channels": described}) + "\n")
        columns = ["time_s"]
        for info in channels:
            columns.append(f"{info.name}.power_w")
            if info.has_counter:
                columns.append(f"{info.name}.energy_j")
        self._file.write(",".join(columns) + "\n")

    def append(self, time_s: float, power_w: Sequence[float], energy_j: Sequence[float]) -> None:
        fields = [f"{time_s:.6f}"]
        for has_counter, power, energy in zip(self._with_counter, power_w, energy_j):
            fields.append(f"{power:.3f}")
            if has_counter:
                fields.append(f"{energy:.6f}")
        self._file.write(",".join(fields) + "\n")

    def event(self, name: str, time_s: float, **details: Any) -> None:
        self._file.write(EVENT + json.dumps({"event": name, "time_s": time_s, **details}) + "\n")

    def __enter__(self) -> CsvWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._file.close()


def read_trace(path: Path) -> Trace:
    """Read a trace back. A last line that was cut short is left out; anything else that is wrong raises TraceError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error
    lines = text.split("\n")[:-1]  # a last line without its newline may be half a line
    if len(lines) < 2 or not lines[0].startswith(HEADER):
        raise TraceError(f"{path} is not a trace of jpwr: its first line does not begin with '{HEADER.strip()}'")
    try:
        meta = json.loads(lines[0][len(HEADER) :])
        if meta.pop("format") != FORMAT:
            raise TraceError(f"{path} has a trace format that this version does not know: use the jpwr that wrote it")
        channels = [ChannelInfo(**dict(entry, scope=Scope(entry["scope"]))) for entry in meta.pop("channels")]
        trace = Trace(channels, meta)
        for number, line in enumerate(lines[2:], 3):  # noqa: B007 - named in the message below
            if line.startswith(EVENT):
                event = json.loads(line[len(EVENT) :])
                trace.event(event.pop("event"), event.pop("time_s"), **event)
            else:
                _append_row(trace, [float(field) for field in line.split(",")])
    except (ValueError, KeyError, TypeError) as error:
        where = f" in line {number}" if "number" in locals() else ""
        raise TraceError(f"{path} is damaged{where}: {error}") from error
    return trace


def _append_row(trace: Trace, fields: list[float]) -> None:
    expected = 1 + sum(2 if info.has_counter else 1 for info in trace.channels)
    if len(fields) != expected:
        raise ValueError(f"{len(fields)} columns where {expected} are expected")
    values = iter(fields[1:])
    power_w, energy_j = [], []
    for info in trace.channels:
        power_w.append(next(values))
        energy_j.append(next(values) if info.has_counter else float("nan"))
    trace.append(fields[0], power_w, energy_j)
