"""The files of a data set: whose each is, copies on the node's own disk, and what of them the node's cache holds."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.options import ConfigError, DataOptions
from benchmarks.common.progress import Pace


def find_files(options: DataOptions, pattern: str, without: str = "") -> list[Path]:
    """The training set's, in a folder or in `train` in it, but for one name; none where none are read.

    Raises ConfigError where there are none.
    """
    if not options.reads_files:
        return []
    folder = Path(options.data_dir)
    for there in (folder, folder / "train"):
        files = sorted(path for path in there.glob(pattern) if path.name != without)
        if files:
            return files
    raise ConfigError(
        f"--data-dir {folder} holds no files {pattern}, nor does a folder train in it: make them with "
        f"'{options.made_by}'"
    )


def own_files(files: Sequence[Path], rank: int, ranks: int) -> list[Path]:
    """Those that a rank reads: each its own, or all of them where they are too few, of which it then takes a part."""
    return list(files[rank::ranks]) if is_shared_by_file(len(files), ranks) else list(files)


def is_shared_by_file(files: int, ranks: int) -> bool:
    """Has every rank files of its own?"""
    return files >= ranks


class Staged(NamedTuple):
    """Copies of files, and what it took to make those that were not there."""

    files: list[Path]
    copied_bytes: int
    time_s: float


def stage(files: Sequence[Path], folder: Path, say: Callable[[str], None] = lambda _: None) -> Staged:
    """Copies in a folder; one of the same size and time of change stays. Raises ConfigError where they do not fit.

    Files of different folders never meet, whatever their names are.
    """
    start_s, pace = time.monotonic(), Pace()
    copied_bytes, copies = 0, []
    for index, file in enumerate(files):
        path = folder / f"{file.parent.name}-{_told_apart(file.parent)}" / file.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            copied_bytes += _copy(file, path)
        except OSError as error:
            raise ConfigError(
                f"--stage {folder} was asked for, but {file} cannot be copied there ({error.strerror or error}): "
                f"{index} of {len(files)} files are there; make room, or name another folder"
            ) from error
        copies.append(path)
        if pace.due:
            say(f"{index + 1} of {len(files)} files are staged, {copied_bytes / 1e9:.1f} GB were copied")
    return Staged(copies, copied_bytes, time.monotonic() - start_s)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which gets the name `path` when the block ends, and goes where it raises."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def drop_from_cache(files: Sequence[Path]) -> None:
    """Ask the kernel to forget what it holds of these files, so that they are read from storage again."""
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _told_apart(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]


def _copy(file: Path, path: Path) -> int:
    """Copy a file that is not there yet, whoever else makes it at the same time; return the bytes that were copied."""
    there = file.stat()
    with suppress(FileNotFoundError):
        copy = path.stat()
        if (copy.st_size, int(copy.st_mtime)) == (there.st_size, int(there.st_mtime)):
            return 0
    with whole_file(path) as part:
        shutil.copy2(file, part)
    return there.st_size
