"""Tables of a trace with the file names and columns of jpwr 0.0.10.

power.SUFFIX: `timestamps` in seconds since 1970, and a column in watts per channel. energy.SUFFIX: watt-hours per
channel. energy_from_counter.SUFFIX: watt-hours by the counters of ROCm channels, if there are any. Both energies are
those of the command. CSV is written row by row with the standard library, HDF5 and Parquet with pandas.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import tempfile
from functools import partial
from heapq import merge
from itertools import islice, repeat
from operator import le
from pathlib import Path
from typing import Callable, Iterator, Mapping, Sequence, TextIO, Tuple

from jpwr.channel import ChannelInfo
from jpwr.energy.estimate import JOULES_PER_WH
from jpwr.errors import JpwrError
from jpwr.messages import printable
from jpwr.process.whole_file import replaced
from jpwr.report.summary import Summary
from jpwr.trace.trace import Series, Trace

ENGINES = {"csv": (), "h5": ("pandas", "tables"), "parquet": ("pandas", "pyarrow")}
COUNTER_TABLE = "energy_from_counter"
MOST_ROWS, ENDS = 60, 5  # of a table that pandas prints completely; rows at each end of others
Times = Tuple[Sequence[float], Sequence[float]]  # of one channel's readings of power, and watts


def check_file_type(file_type: str) -> None:
    """Raise JpwrError unless the packages that write files of a type are installed."""
    missing = [name for name in ENGINES[file_type] if importlib.util.find_spec(name) is None]
    if missing:
        raise JpwrError(f"--df-filetype {file_type} needs {' and '.join(missing)}: pip install {' '.join(missing)}")


def suffix_of(asked: str, rank: int | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the files' suffix: `asked`, with %q{NAME} replaced from the environment, then node and process.

    Without `asked`, it is the launcher's rank, or node and process. Raises JpwrError for a suffix that is invalid in
    file names, and for a variable that is not set.
    """

    def value_of(found: re.Match[str]) -> str:
        value = environ.get(found[1], "")
        if not value:
            raise JpwrError(
                f"--df-suffix {asked} has ${found[1]}, which is not set or empty: set it, or choose another suffix"
            )
        return value

    own = f"{os.uname().nodename}.{os.getpid()}"
    if not asked:
        return own if rank is None else str(rank)
    suffix = re.sub(r"%q\{(.*?)\}", value_of, asked) + f".{own}"
    if "/" in suffix or not suffix.isprintable():
        made = printable(suffix)
        raise JpwrError(
            f"--df-suffix results in '{made}', which is invalid in file names: leave out '/' and control characters"
        )
    return suffix


def write_frames(folder: Path, suffix: str, file_type: str, summary: Summary) -> list[Path]:
    """Write the tables into a folder, also over older ones, and return their paths. Raises OSError."""
    paths = []
    for name, write in _tables(summary).items():
        path = folder / f"{name}.{suffix}.{file_type}"
        with replaced(path) as part:
            _write_table(part, write, file_type)
        paths.append(path)
    return paths


def _tables(summary: Summary) -> dict[str, Callable[[TextIO], None]]:
    """Return what writes each table, by its name."""
    counted = [(info, estimate) for info, estimate in zip(summary.infos, summary.command) if has_counter_table(info)]
    counted_wh_of = {info.name: estimate.counter_j / JOULES_PER_WH for info, estimate in counted}
    tables: dict[str, Callable[[TextIO], None]] = {
        "power": partial(_write_power, summary.trace),
        "energy": partial(_write_energy, summary),
    }
    if counted_wh_of:
        tables[COUNTER_TABLE] = partial(_write_counters, counted_wh_of)
    return tables


def printed_lines(summary: Summary) -> Iterator[str]:
    """Yield the tables as jpwr 0.0.10 printed them; of more than 60 rows the first and last five, as pandas did."""
    titles = {"power": ["Power data:"], "energy": ["Energy data:"]}
    for name, write in _tables(summary).items():
        with tempfile.TemporaryFile("w+", encoding="utf-8") as file:  # as large as the trace
            write(file)
            file.seek(0)
            size = sum(1 for _ in file) - 1  # without the titles
            file.seek(0)
            shown = [line for at, line in enumerate(file) if size <= MOST_ROWS or not ENDS < at <= size - ENDS]
        rows = [
            [first, *(cell or "NaN" for cell in cells)] for first, *cells in (line[:-1].split(",") for line in shown)
        ]
        if size > MOST_ROWS:
            rows.insert(1 + ENDS, ["..", *["..."] * (len(rows[0]) - 1)])
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join([first.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]) for first, *cells in rows]
        yield from titles.get(name, ["Additional data:", f"{name}:"])
        if name == "energy":  # a series: values without titles
            yield from [*lines[1:], "dtype: float64"]
        else:
            yield from lines
            if size > MOST_ROWS:
                yield from ["", f"[{size} rows x {len(widths) - 1} columns]"]


def has_counter_table(info: ChannelInfo) -> bool:
    """Whether jpwr 0.0.10 wrote the energy of that channel's counter, too: it did for ROCm only."""
    return info.has_counter and info.name.startswith("rocm:")


def ticks(every: Sequence[Times]) -> Iterator[tuple[float, Sequence[float | None]]]:
    """Yield ticks, a time in seconds and the power of each channel, from each channel's times and readings of power.

    A tick ends before the second reading of any channel. It has the time of its first reading, and None for channels
    that were not read.
    """
    if len({len(times_s) for times_s, _ in every}) == 1:
        firsts_s, lasts_s, again_s = (map(edge, zip(*(times_s for times_s, _ in every))) for edge in (min, max, min))
        if all(map(le, lasts_s, islice(again_s, 1, None))):  # no reading was left out
            yield from zip(firsts_s, zip(*(power_w for _, power_w in every)))
            return
    readings = merge(*(zip(times_s, repeat(index), power_w) for index, (times_s, power_w) in enumerate(every)))
    nothing: list[float | None] = [None] * len(every)
    first_s, tick_w = math.nan, nothing[:]
    for time_s, index, power_w in readings:
        if tick_w[index] is not None:
            yield first_s, tick_w
            first_s, tick_w = math.nan, nothing[:]
        if first_s != first_s:
            first_s = time_s
        tick_w[index] = power_w
    if first_s == first_s:
        yield first_s, tick_w


def counted_wh(series: Series) -> float:
    """Return the watt-hours between the first and the last value of a counter; nan without any."""
    seen_j = [counter_j for counter_j in series.energy_j or () if math.isfinite(counter_j)]
    return (seen_j[-1] - seen_j[0]) / JOULES_PER_WH if seen_j else math.nan


def _write_power(trace: Trace, file: TextIO) -> None:
    epoch_offset_s = trace.meta.get("epoch_offset_s", 0.0)
    file.write(",".join(["", "timestamps", *(info.name for info in trace.channels)]) + "\n")
    row = "%d,%.6f" + ",%.3f" * len(trace.channels) + "\n"
    for number, (time_s, power_w) in enumerate(ticks(trace.power())):
        if None in power_w:
            power_w = [math.nan if watts is None else watts for watts in power_w]
        file.write((row % (number, time_s + epoch_offset_s, *power_w)).replace("nan", ""))


def _write_energy(summary: Summary, file: TextIO) -> None:
    file.write(",0\n")
    for info, estimate in zip(summary.infos, summary.command):
        file.write(f"{info.name},{'' if estimate.unknown else f'{estimate.energy_j / JOULES_PER_WH:.9f}'}\n")


def _write_counters(counted_wh_of: Mapping[str, float], file: TextIO) -> None:
    values = ["" if math.isnan(watt_hours) else f"{watt_hours:.9f}" for watt_hours in counted_wh_of.values()]
    file.write(",".join(["", *counted_wh_of]) + "\n" + ",".join(["0", *values]) + "\n")


def _write_table(path: Path, write: Callable[[TextIO], None], file_type: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        write(file)
    if file_type == "csv":
        return
    import pandas

    frame = pandas.read_csv(path, index_col=0)
    if file_type == "h5":  # energies are a series in HDF5, as in jpwr 0.0.10
        (frame["0"].rename(None) if list(frame) == ["0"] else frame).to_hdf(path, key="jpwr", mode="w")
    else:
        frame.to_parquet(path)
