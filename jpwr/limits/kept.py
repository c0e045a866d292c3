"""File of a user on a node that names what devices had before their limits were changed, and restores it.

A sampler that sets limits locks the file. A file without a lock was left by a sampler that was killed, and the next
start of jpwr restores what it names.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Callable

from jpwr.errors import JpwrError
from jpwr.limits.setting import UNITS, Setting
from jpwr.messages import log
from jpwr.process.host import boot_id

FOLDER_VARIABLE = "JPWR_LIMITS_DIR"
FOLDER = "/var/tmp"  # unlike /tmp, Slurm's job_container plug-in keeps it common to all jobs of a node
ROUNDED = 0.03  # a driver may set a value that differs by this from the one asked for


def path_of_file() -> Path:
    """Return the path of this user's file."""
    return Path(os.environ.get(FOLDER_VARIABLE) or FOLDER) / f"jpwr-limits-{os.getuid()}"


class Kept:
    """The file, locked until close(); raises OSError if another sampler has locked it, or it cannot be written."""

    def __init__(self) -> None:
        self._path = path_of_file()
        self._entries: dict[tuple[str, str], dict[str, Any]] = {}  # by device and interface
        self._file = open(self._path, "a+", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o644))
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._file.fileno()).st_uid != os.getuid():
                raise PermissionError(1, "it is another user's")
        except OSError:
            self._file.close()
            raise
        self._file.seek(0)
        for line in self._file:
            with suppress(ValueError, KeyError, TypeError):
                one = json.loads(line)
                if one.pop("boot") == boot_id():  # a reboot resets limits
                    self._entries[one["device_id"], one["means"]] = one

    def add(self, setting: Setting, before: float | None, value: float) -> None:
        """Append what is about to be changed; raise JpwrError if it cannot be written, or an earlier change is left."""
        one = {"device_id": setting.device_id, "means": setting.means, "before": before, "set_to": value}
        if (setting.device_id, setting.means) in self._entries:
            raise JpwrError(f"{self._path} names a change of an earlier run that is not restored")
        try:
            print(json.dumps({**one, "boot": boot_id()}), file=self._file, flush=True)
        except OSError as error:
            raise JpwrError(f"{self._path} cannot be written: {error.strerror}") from error
        self._entries[setting.device_id, setting.means] = one

    def forget(self, setting: Setting) -> None:
        """Take back what add() has announced, as it was refused."""
        del self._entries[setting.device_id, setting.means]

    def restore(self, open_settings: Callable[[ExitStack], list[Setting]]) -> None:
        """Restore what was there before, as far as the devices are this job's."""
        with ExitStack() as stack:
            try:
                for setting in open_settings(stack) if self._entries else []:
                    key = setting.device_id, setting.means
                    if key in self._entries and _is_undone(setting, **self._entries[key]):
                        del self._entries[key]
            except Exception as error:  # a vendor's library may raise anything
                log(f"{self._path} names limits that are not restored ({error})")

    def close(self) -> None:
        """Remove the file if nothing is left to restore, and release the lock."""
        if not self._entries:
            with suppress(OSError):
                self._path.unlink()
        with suppress(OSError):  # what could not be written is reported
            self._file.close()


def _is_undone(setting: Setting, before: float | None, set_to: float, **_: str) -> bool:
    """Restore a setting unless another program has changed it since; return whether it is no longer as jpwr set it."""
    unit = UNITS[setting.kind]
    was = f"and was {before:g} {unit}" if before is not None else "and was not limited"
    try:
        now = setting.kept()
        if now is None or abs(now - set_to) <= ROUNDED * set_to:
            setting.undo(before)
        elif now != before:
            log(f"{setting} stays at {now:g} {unit}, as another program has changed it, {was}")
    except JpwrError as error:
        log(f"{setting} stays at {set_to:g} {unit}, {was} ({error})")
        return False
    return True
