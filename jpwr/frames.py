"""A trace as the data frames of jpwr 0.0.10: its files keep their names and columns.

power.SUFFIX: `timestamps` in seconds since 1970, and a column in watts per channel; energy.SUFFIX: watt-hours per
channel; energy_from_counter.SUFFIX, where ROCm's channels have a counter: watt-hours by its first and last value. CSV
is written row by row with the standard library, HDF5 and Parquet with pandas.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, Callable, Iterable, Iterator, Mapping, Sequence, TextIO

from jpwr.channel import ChannelInfo
from jpwr.errors import JpwrError
from jpwr.files import create_table
from jpwr.say import printable
from jpwr.summary import JOULES_PER_WH, Summary
from jpwr.trace import Event
from jpwr.writers import CsvWriter

ENGINES = {"csv": (), "h5": ("pandas", "tables"), "parquet": ("pandas", "pyarrow")}
COUNTER_TABLE = "energy_from_counter"
MAX_NAME_BYTES = 255  # of a file's name, on all file systems that a trace may lie on


def check_file_type(file_type: str) -> None:
    """Raise JpwrError unless what writes the files of that type is installed."""
    missing = [name for name in ENGINES[file_type] if importlib.util.find_spec(name) is None]
    if missing:
        raise JpwrError(f"--df-filetype {file_type} needs {' and '.join(missing)}: pip install {' '.join(missing)}")


def suffix_of(asked: str, rank: int | None, environ: Mapping[str, str] = os.environ) -> str:
    """The files' suffix: what was asked for, with %q{NAME} replaced from the environment, then node and process.

    Without a suffix, a launcher's rank is it. Raises JpwrError for one that no file's name can have in it, and for a
    variable that is not set.
    """

    def value_of(found: re.Match[str]) -> str:
        value = environ.get(found[1], "")
        if not value:
            raise JpwrError(
                f"--df-suffix {asked} asks for ${found[1]}, which is not set or empty: set it, or choose another suffix"
            )
        return value

    own = f"{os.uname().nodename}.{os.getpid()}"
    if not asked:
        return own if rank is None else str(rank)
    suffix = re.sub(r"%q\{(.*?)\}", value_of, asked) + f".{own}"
    if "/" in suffix or not suffix.isprintable():
        raise JpwrError(f"--df-suffix makes '{printable(suffix)}', which no file's name can have in it: leave out '/'")
    if len(os.fsencode(f"{COUNTER_TABLE}.{suffix}.parquet")) > MAX_NAME_BYTES:
        raise JpwrError(f"--df-suffix makes names that are longer than {MAX_NAME_BYTES} bytes: choose a shorter one")
    return suffix


def write_frames(trace: CsvWriter, suffix: str, file_type: str, summary: Summary) -> list[Path]:
    """Write the files beside the trace; returns their paths. An older file of a name is kept as NAME.old."""
    counters = [info for info in summary.infos if has_counter_table(info)]
    tables: dict[str, Callable[[TextIO], None]] = {
        "power": partial(_write_power, trace),
        "energy": partial(_write_energy, summary),
    }
    if counters:
        tables[COUNTER_TABLE] = partial(_write_counters, trace, counters)
    paths = []
    for name, write in tables.items():
        path = trace.path.with_name(f"{name}.{suffix}.{file_type}")
        with create_table(path) as file:
            try:
                _write_table(file, write, file_type)
            except BaseException:  # half a table would be taken for a whole one
                path.unlink()
                raise
        paths.append(path)
    return paths


def has_counter_table(info: ChannelInfo) -> bool:
    """Whether jpwr 0.0.10 had the energy of that channel's counter, too: it did for ROCm alone."""
    return info.has_counter and info.name.startswith("rocm:")


def ticks(rows: Iterable[tuple[float, Sequence[float | None]]]) -> Iterator[tuple[float, list[float | None]]]:
    """Rows of moments as rows of ticks: one goes on until a channel comes again, and has the time of the first."""
    time_s = math.nan
    tick_w: list[float | None] = []
    for moment_s, power_w in rows:
        if all(watts is None for watts in power_w):
            continue
        if tick_w and all(before is None or now is None for before, now in zip(tick_w, power_w)):
            tick_w = [now if before is None else before for before, now in zip(tick_w, power_w)]
            continue
        if tick_w:
            yield time_s, tick_w
        time_s, tick_w = moment_s, list(power_w)
    if tick_w:
        yield time_s, tick_w


def _write_power(trace: CsvWriter, file: TextIO) -> None:
    with trace.reader() as reader:
        file.write(",".join(["", "timestamps", *(info.name for info in reader.channels)]) + "\n")
        rows = ((entry.time_s, entry.power_w) for entry in reader if not isinstance(entry, Event))
        for number, (time_s, power_w) in enumerate(ticks(rows)):
            values = ["" if watts is None or watts != watts else f"{watts:.3f}" for watts in power_w]
            file.write(",".join([str(number), f"{time_s + reader.meta['epoch_offset_s']:.6f}", *values]) + "\n")


def _write_energy(summary: Summary, file: TextIO) -> None:
    file.write(",0\n")
    for info, estimate in zip(summary.infos, summary.command):
        file.write(f"{info.name},{'' if estimate is None else f'{estimate.energy_j / JOULES_PER_WH:.9f}'}\n")


def _write_counters(trace: CsvWriter, infos: Sequence[ChannelInfo], file: TextIO) -> None:
    names = [info.name for info in infos]
    first_j: dict[str, float] = {}
    last_j: dict[str, float] = {}
    with trace.reader() as reader:
        for entry in reader:
            if isinstance(entry, Event):
                continue
            for info, counter_j in zip(reader.channels, entry.energy_j):
                if counter_j is not None and math.isfinite(counter_j):
                    first_j.setdefault(info.name, counter_j)
                    last_j[info.name] = counter_j
    values = [f"{(last_j[name] - first_j[name]) / JOULES_PER_WH:.9f}" if name in last_j else "" for name in names]
    file.write(",".join(["", *names]) + "\n" + ",".join(["0", *values]) + "\n")


def _write_table(file: BinaryIO, write: Callable[[TextIO], None], file_type: str) -> None:
    if file_type == "csv":
        with TextIOWrapper(file, encoding="utf-8") as text:
            write(text)
        return
    import shutil
    import tempfile

    import pandas

    # pandas opens files by name, and the name may be another sampler's by then.
    with tempfile.TemporaryDirectory() as folder:
        csv, made = Path(folder) / "table.csv", Path(folder) / "table"
        with open(csv, "w", encoding="utf-8") as text:
            write(text)
        frame = pandas.read_csv(csv, index_col=0)
        if file_type == "h5":
            frame.to_hdf(made, key="jpwr", mode="w")
        else:
            frame.to_parquet(made)
        with open(made, "rb") as whole:
            shutil.copyfileobj(whole, file)
