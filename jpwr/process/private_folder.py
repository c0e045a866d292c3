"""New folders and files for temporary data that only their owner can access."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from jpwr.errors import JpwrError

UNNAMED = "unnamed"  # the file's name until it has none


def unnamed_file(preferred: Path | None = None) -> int:
    """Return a new file, open to read and write, that disappears when it is closed, also if this process is killed.

    It is in the preferred folder if that is writable. Raises JpwrError if there is no folder for temporary files.
    """
    if preferred:
        with suppress(OSError):
            path = preferred / f".jpwr-{os.urandom(8).hex()}.part"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            path.unlink()
            return file
    folder = PrivateFolder(without="samples cannot be kept there", file=UNNAMED)
    os.unlink(f"{folder.path}/{UNNAMED}")  # noqa: PTH108 - pathlib is slower to start
    os.rmdir(folder.path)  # noqa: PTH106
    return folder.file


class PrivateFolder:
    """A new folder of this user, in the first suitable folder for temporary files.

    With `file`, it contains an empty file of that name, which is open as the descriptor `file`. Raises JpwrError if no
    folder can be made; `without` completes the message with the consequence. If this process is killed, the folder
    stays, because the command may still use it.
    """

    def __init__(self, without: str, file: str = "") -> None:
        reasons = []
        for parent in dict.fromkeys([os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp"]):
            try:
                mode = os.stat(parent).st_mode  # noqa: PTH116
                if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
                    reasons.append(f"{parent}: other users may replace files")
                    continue
                self.path = f"{os.path.abspath(parent)}/jpwr-{os.urandom(8).hex()}"  # noqa: PTH100
                os.mkdir(self.path, 0o700)  # noqa: PTH102 - pathlib is slower to start
                if file:
                    self._make(f"{self.path}/{file}")
                return
            except OSError as error:
                reasons.append(f"{parent}: {error.strerror}")
        raise JpwrError(
            f"no folder for temporary files is writable ({', '.join(reasons)}), so {without}: set TMPDIR to one that is"
        )

    def _make(self, path: str) -> None:
        try:
            self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.pwrite(self.file, b"\n", 0)  # a full disk accepts new names, but no bytes
            os.ftruncate(self.file, 0)
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder with its content as far as possible, without following links."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)
