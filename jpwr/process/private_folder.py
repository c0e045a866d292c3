"""A folder that only its owner may look into and that nobody can have put there before, for as long as a run lasts."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress

from jpwr.errors import JpwrError


class PrivateFolder:
    """A new folder of this user alone, in the first folder for temporary files in which one can be made.

    It is locked for as long as it is in use, so that the next one who comes removes what a killed one left, once no
    process that was told of it is there. `file` is an empty file of that name in it, open to be read, which can be
    written to, where one is asked for. Raises JpwrError where none can be made, which says what is `without` it.
    """

    def __init__(self, without: str, file: str = "") -> None:
        reasons = []
        for parent in dict.fromkeys([os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp"]):
            try:
                mode = os.stat(parent).st_mode  # noqa: PTH116
                if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
                    reasons.append(f"{parent}: others may replace what somebody has there")
                    continue
                with suppress(OSError):  # one that may not be listed will still do
                    _remove_left_behind(parent)
                self.path, self._lock = _make_locked(os.path.abspath(parent))  # noqa: PTH100
                if file:
                    self._make(file)
                return
            except OSError as error:
                reasons.append(f"{parent}: {error.strerror}")
        raise JpwrError(
            f"no folder for temporary files can be written to ({', '.join(reasons)}), so {without}: set TMPDIR to one"
        )

    def _make(self, name: str) -> None:
        try:
            self.file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._lock)
            os.write(self.file, b"\n")  # a full disk takes names, and no bytes
            os.ftruncate(self.file, 0)
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        _remove(self.path, self._lock)
        os.close(self._lock)


def _prefix() -> str:
    """Of the folders' names: a lock says something to processes of the same kernel, and only of it."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read(8)
    except OSError:
        boot = "0"
    return f"jpwr-{boot}-"


def _make_locked(parent: str) -> tuple[str, int]:
    while True:
        path = f"{parent}/{_prefix()}{os.urandom(8).hex()}"
        os.mkdir(path, 0o700)  # noqa: PTH102 - pathlib is slower to start
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # another took it for left behind
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        except OSError:
            pass  # a file system without locks: then nobody takes it for left behind
        if os.path.exists(path):  # noqa: PTH110
            return path, lock
        os.close(lock)


def _remove_left_behind(parent: str) -> None:
    """Remove this user's folders that nobody holds or may write to."""
    prefix = _prefix()
    for name in os.listdir(parent):  # noqa: PTH208
        path = f"{parent}/{name}"
        if not name.startswith(prefix):
            continue
        with suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if not _is_known(path):
                        _remove(path, lock)
            finally:
                os.close(lock)


def _is_known(path: str) -> bool:
    """Whether a process has been told of it: a command may outlive a sampler that was killed."""
    for process in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        with suppress(OSError), open(f"/proc/{process}/environ", "rb") as file:
            if os.fsencode(path) in file.read():
                return True
    return False


def _remove(path: str, folder: int) -> None:
    """Remove a folder of ours, which is open, with whatever was put into it; what cannot be removed stays.

    By now another folder may have that name: nothing in it is touched.
    """
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
    with suppress(OSError):
        os.rmdir(path)  # noqa: PTH106
        return
    with suppress(OSError):
        if os.path.samestat(os.fstat(folder), os.lstat(path)):
            import shutil

            shutil.rmtree(path, ignore_errors=True)
