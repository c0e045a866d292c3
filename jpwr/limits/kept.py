"""Files that name what a device had before its limits were changed, one per device.

A process that has changed limits holds a lock on the file. A file without a lock belongs to one that was killed, or
could not restore them, and its limits are restored from the file. Lines are appended, each before what it describes is
changed; the last one of a kind counts.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from jpwr.errors import JpwrError
from jpwr.limits.setting import UNITS
from jpwr.process.host import boot_id

FOLDER_VARIABLE = "JPWR_LIMITS_DIR"
FOLDER = "/var/tmp"  # unlike /tmp, Slurm's job_container plug-in keeps it common to all jobs of a node
PREFIX = "jpwr-limits-"
MOST_BYTES = 1 << 16
FOR_ALL = "NVML application clocks"  # the one interface that an administrator can open to all users


class InUse(JpwrError):
    """Another process has changed the limits of the device, or the file is none of ours; `entries` are the former's."""

    def __init__(self, words: str, entries: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(words)
        self.entries = entries


class Kept:
    """The file of one device, locked until it is closed; raises OSError, and InUse if another process has locked it."""

    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._file = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(self._file)
            # Root restores for all, see entries(); others trust root and themselves.
            is_trusted = os.getuid() in (0, status.st_uid) or not status.st_uid
            if not (stat.S_ISREG(status.st_mode) and is_trusted and os.path.samestat(status, path.stat())):
                raise InUse(f"{path} is another user's, or no file of jpwr")
        except BlockingIOError as error:
            entries = [{**entry, "user": os.fstat(self._file).st_uid} for entry in self._all_entries()]
            self.close()
            raise InUse(
                f"another jpwr has changed the limits of {path.name[len(PREFIX) :]}: wait for its end, or name other "
                "devices by CUDA_VISIBLE_DEVICES",
                entries,
            ) from error
        except BaseException:
            self.close()
            raise

    def add(self, entry: dict[str, Any]) -> None:
        """Append what is about to be changed; raise JpwrError if the disk is full."""
        line = (json.dumps({"boot_id": boot_id(), **entry}) + "\n").encode()
        try:
            if os.write(self._file, line) < len(line):
                raise OSError(0, "disk full")
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def entries(self) -> list[dict[str, Any]]:
        """Return the last whole entry of each kind; empty after a reboot, which resets limits.

        Of another user, root restores only a clock that any user may set: no user can change a device by root's hand.
        """
        is_ours = os.fstat(self._file).st_uid in (0, os.getuid())
        return [entry for entry in self._all_entries() if is_ours or entry["means"] == FOR_ALL]

    def _all_entries(self) -> list[dict[str, Any]]:
        found = {}
        for line in os.pread(self._file, MOST_BYTES, 0).decode(errors="replace").splitlines(keepends=True):
            with suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                before = entry["before"] if entry["before"] is None else float(entry["before"])
                if line.endswith("\n") and entry["boot_id"] == boot_id() and entry["kind"] in UNITS:
                    found[entry["kind"]] = {**entry, "set": float(entry["set"]), "before": before}
        return list(found.values())

    def close(self, is_done: bool = False) -> None:
        """Release the lock; remove the file if nothing is left to restore, and it is not in another user's folder."""
        if is_done:
            with suppress(OSError):
                self.path.unlink()
        os.close(self._file)


def create(device_id: str) -> Kept:
    """Make the file of a device; raise InUse if another process has it, and JpwrError if it cannot be made."""
    path = folder() / (PREFIX + re.sub(r"[^\w.:-]", "_", device_id))
    try:
        return Kept(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
    except FileExistsError as error:
        with suppress(OSError):
            Kept(path, os.O_RDONLY).close()
        raise JpwrError(
            f"{path} names limits of an earlier run that are not restored: an administrator can restore them with "
            "'jpwr -- true', as root"
        ) from error
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> JpwrError:
    return JpwrError(f"{path} cannot be written ({error.strerror}): set {FOLDER_VARIABLE}")


def folder() -> Path:
    """Return the folder of the files."""
    return Path(os.environ.get(FOLDER_VARIABLE) or FOLDER)


def names() -> list[str]:
    """Return the names of all files in the folder."""
    try:
        return [name for name in os.listdir(folder()) if name.startswith(PREFIX)]  # noqa: PTH208 - makes no objects
    except OSError:
        return []


def left_behind() -> Iterator[Kept]:
    """Yield the files of processes that have ended, locked and open."""
    for name in names():
        with suppress(OSError, InUse):
            yield Kept(folder() / name, os.O_RDONLY)


def held_by_others() -> Iterator[Mapping[str, Any]]:
    """Yield the entries of processes that keep limits in force, each with the number of its user."""
    for name in names():
        try:
            Kept(folder() / name, os.O_RDONLY).close()
        except InUse as error:
            yield from error.entries
        except OSError:
            continue
