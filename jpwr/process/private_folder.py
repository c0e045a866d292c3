"""A folder that only its owner may look into and that nobody can have put there before, for as long as a run lasts."""

from __future__ import annotations

import os
import stat

from jpwr.errors import JpwrError


class PrivateFolder:
    """A new folder of this user alone, in the first folder for temporary files in which one can be made.

    `file` is an empty file of that name in it, open to be read, which can be written to, where one is asked for. Raises
    JpwrError where none can be made, which says what is `without` it. A killed process leaves its folder there.
    """

    def __init__(self, without: str, file: str = "") -> None:
        reasons = []
        for parent in dict.fromkeys([os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp"]):
            try:
                mode = os.stat(parent).st_mode  # noqa: PTH116
                if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
                    reasons.append(f"{parent}: others may replace what somebody has there")
                    continue
                self.path = f"{os.path.abspath(parent)}/jpwr-{os.urandom(8).hex()}"  # noqa: PTH100
                os.mkdir(self.path, 0o700)  # noqa: PTH102 - pathlib is slower to start
                if file:
                    self._make(f"{self.path}/{file}")
                return
            except OSError as error:
                reasons.append(f"{parent}: {error.strerror}")
        raise JpwrError(
            f"no folder for temporary files can be written to ({', '.join(reasons)}), so {without}: set TMPDIR to one"
        )

    def _make(self, path: str) -> None:
        try:
            self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.write(self.file, b"\n")  # a full disk takes names, and no bytes
            os.ftruncate(self.file, 0)
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder with whatever was put into it; what cannot be removed stays, and a link is not followed."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)
