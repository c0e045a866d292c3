"""Files of a data set: assign them to ranks, copy them to the node's own disk, drop them from the node's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.options import ConfigError, DataOptions
from benchmarks.common.progress import Pace
from ioprof.folder import PROFILE, load
from ioprof.summary import by_file, to_stage
from jpwr.errors import JpwrError
from jpwr.process.whole_file import replaced


def find_files(options: DataOptions, pattern: str, without: str = "") -> list[Path]:
    """Return the files of a training set, in its folder or in `train` inside it, except those named `without`.

    Returns an empty list for made data; raises ConfigError if there is no such file.
    """
    if not options.reads_files:
        return []
    folder = Path(options.data_dir)
    for place in (folder, folder / "train"):
        files = sorted(path for path in place.glob(pattern) if path.name != without)
        if files:
            return files
    raise ConfigError(
        f"--data-dir {folder} has no files {pattern}, and neither has a folder train in it: make them with "
        f"'{options.made_by}'"
    )


def identity(files: Sequence[Path], made: bool) -> dict[str, str]:
    """Return what identifies a data set: a hash of its files' names and, if prepare made it, of how.

    Contents are not read: a data set may have terabytes.
    """
    plans = sorted(files[0].parent.glob("*.json")) if made else []
    parts = [*(path.name for path in files), *(path.read_text(encoding="utf-8") for path in plans)]
    return {"files_sha256": hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()}


def own_files(files: Sequence[Path], rank: int, ranks: int) -> list[Path]:
    """Return the files that a rank reads: its own, or a part of every file if there are fewer files than ranks."""
    return list(files[rank::ranks]) if len(files) >= ranks else list(files)


class Staged(NamedTuple):
    """Copies of files, with the bytes and the time that copying the missing ones took."""

    files: list[Path]
    copied_bytes: int
    time_s: float


def worth_staging(files: Sequence[Path], options: DataOptions) -> list[Path]:
    """Return the files to stage: all, or with --stage-bytes those that gain most in some bytes.

    The gain is by an earlier run's reads of the data, by all ranks; raises ConfigError if there are none.
    """
    if not options.stage_bytes:
        return list(files)
    try:
        reads = by_file(*(load(path.parent) for path in Path(options.stage_reads).glob(f"*/{PROFILE}")))
    except JpwrError as error:
        raise ConfigError(f"--stage-reads {options.stage_reads} cannot be used: {error}") from error
    data = Path(options.data_dir).resolve()
    known = {str(Path(path).resolve()): one for path, one in reads.items() if Path(path).is_file()}
    known = {path: one for path, one in known.items() if Path(path).is_relative_to(data)}
    for path, one in known.items():
        one.size_bytes = Path(path).stat().st_size  # which may have changed since
    if not known:
        raise ConfigError(f"--stage-reads {options.stage_reads} has no reads of files below {data}")
    chosen = set(to_stage(known, options.stage_bytes))
    return [file for file in files if str(file.resolve()) in chosen]


def stage(files: Sequence[Path], folder: Path, say: Callable[[str], None] = lambda _: None) -> Staged:
    """Copy files into a folder, unless a copy has the same size and modification time.

    Files of the same name from different folders do not collide. Raises ConfigError if the folder has no room.
    """
    start_s, pace = time.monotonic(), Pace()
    copied_bytes, copies = 0, []
    for index, file in enumerate(files):
        place = hashlib.sha256(str(file.parent.parent.resolve()).encode()).hexdigest()[:8]
        path = folder / place / file.parent.name / file.name  # the middle name may be that of a class
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            copied_bytes += _copy(file, path)
        except OSError as error:
            raise ConfigError(
                f"--stage {folder} was asked for, but {file} cannot be copied there ({error.strerror or error}) "
                f"after {index} of {len(files)} files: make room, or choose another folder"
            ) from error
        copies.append(path)
        if pace.due:
            say(f"{index + 1} of {len(files)} files are staged, {copied_bytes / 1e9:.1f} GB were copied")
    return Staged(copies, copied_bytes, time.monotonic() - start_s)


def drop_from_cache(files: Sequence[Path]) -> None:
    """Ask the kernel to drop these files from its cache, so that they are read from storage again."""
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _copy(file: Path, path: Path) -> int:
    """Copy a missing file, safely if other processes do the same, and return the bytes copied."""
    original = file.stat()
    with suppress(FileNotFoundError):
        copy = path.stat()
        if (copy.st_size, int(copy.st_mtime)) == (original.st_size, int(original.st_mtime)):
            return 0
    with replaced(path) as part:
        shutil.copy2(file, part)
    return original.st_size
