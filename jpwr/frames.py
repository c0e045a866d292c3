"""A trace as the data frames of jpwr 0.0.10: its files keep their names and columns.

power.SUFFIX: `timestamps` in seconds since 1970, and a column in watts per channel; energy.SUFFIX: watt-hours per
channel. CSV is written row by row with the standard library, HDF5 and Parquet with pandas.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Mapping

from jpwr.errors import JpwrError
from jpwr.summary import JOULES_PER_WH, Summary
from jpwr.trace import Event
from jpwr.writers import open_trace

ENGINES = {"csv": (), "h5": ("pandas", "tables"), "parquet": ("pandas", "pyarrow")}


def check_file_type(file_type: str) -> None:
    """Raise JpwrError unless what writes the files of that type is installed."""
    missing = [name for name in ENGINES[file_type] if importlib.util.find_spec(name) is None]
    if missing:
        raise JpwrError(f"--df-filetype {file_type} needs {' and '.join(missing)}: pip install {' '.join(missing)}")


def suffix_of(asked: str, rank: int | None, environ: Mapping[str, str] = os.environ) -> str:
    """The files' suffix: what was asked for, with %q{NAME} replaced from the environment, then node and process.

    Without a suffix, a launcher's rank is it.
    """
    own = f"{os.uname().nodename}.{os.getpid()}"
    if asked:
        return re.sub(r"%q\{(.*?)\}", lambda found: environ.get(found[1], ""), asked) + f".{own}"
    return own if rank is None else str(rank)


def write_frames(trace: Path, suffix: str, file_type: str, summary: Summary) -> list[Path]:
    """Write both files beside the trace; returns their paths."""
    power = trace.with_name(f"power.{suffix}.csv")
    energy = trace.with_name(f"energy.{suffix}.csv")
    with open_trace(trace) as reader, open(power, "w") as file:
        file.write(",".join(["", "timestamps", *(info.name for info in reader.channels)]) + "\n")
        number = 0
        for entry in reader:
            if isinstance(entry, Event) or all(power_w is None for power_w in entry.power_w):
                continue
            time_s = entry.time_s + reader.meta["epoch_offset_s"]
            values = ["" if value is None or value != value else f"{value:.3f}" for value in entry.power_w]
            file.write(",".join([str(number), f"{time_s:.6f}", *values]) + "\n")
            number += 1
    with open(energy, "w") as file:
        file.write(",0\n")
        for info, estimate in zip(summary.infos, summary.command):
            file.write(f"{info.name},{'' if estimate is None else f'{estimate.energy_j / JOULES_PER_WH:.9f}'}\n")
    return [power, energy] if file_type == "csv" else [_convert(path, file_type) for path in (power, energy)]


def _convert(path: Path, file_type: str) -> Path:
    import pandas

    frame = pandas.read_csv(path, index_col=0)
    converted = path.with_suffix(f".{file_type}")
    if file_type == "h5":
        frame.to_hdf(converted, key="jpwr", mode="w")
    else:
        frame.to_parquet(converted)
    path.unlink()
    return converted
