"""Temporary files that only their owner can access."""

from __future__ import annotations

import os
import stat
from typing import Sequence

from jpwr.errors import JpwrError


def temporary_file(without: str, folders: Sequence[str] = ()) -> tuple[str, int]:
    """Return path and descriptor of a new, empty file, in the first suitable of `folders` and those for such files.

    Raises JpwrError if none can be made; `without` completes the message with the consequence.
    """
    reasons = []
    for folder in dict.fromkeys([*folders, os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp"]):
        path = f"{os.path.abspath(folder)}/.jpwr-{os.urandom(8).hex()}"  # noqa: PTH100 - pathlib is slower to start
        try:
            mode = os.stat(folder).st_mode  # noqa: PTH116
            if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
                reasons.append(f"{folder}: other users may replace files")
                continue
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror}")
            continue
        try:
            os.pwrite(file, b"\n", 0)  # a full disk accepts new names, but no bytes
            os.ftruncate(file, 0)
            return path, file
        except OSError as error:
            os.unlink(path)  # noqa: PTH108
            os.close(file)
            reasons.append(f"{folder}: {error.strerror}")
    raise JpwrError(
        f"no folder for temporary files is writable ({', '.join(reasons)}), so {without}: set TMPDIR to one that is"
    )


def unnamed_file(*folders: str) -> int:
    """Return a file, open to read and write, that disappears when it is closed, also if this process is killed.

    It is in the first suitable of the folders, or in one for temporary files; raises JpwrError without any.
    """
    path, file = temporary_file("samples cannot be kept there", folders)
    os.unlink(path)  # noqa: PTH108
    return file
