"""Common start and end of the measured windows of copies that run at once.

The copies share a folder with a file for each copy that is ready to measure, and one for each that has measured enough.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.launch import COPIES_VARIABLE, COPY_VARIABLE, FAILED_COPY, FOLDER_VARIABLE
from benchmarks.common.options import ConfigError

READY, DONE = "ready", "done"
# Below the 600 s after which NCCL ends the other processes of a copy that wait for the first.
LIMIT_S = 480.0
POLL_S = 0.02
MORE_SHARE = 20  # further steps at once, as a divisor of those so far: windows end within 5 % of their length


class Copies(NamedTuple):
    """One copy among those that run at once; copies are counted from 1."""

    folder: Path
    copy: int
    copies: int
    limit_s: float = LIMIT_S
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait_for_all(self) -> int:
        """Wait until every copy is ready to measure, and return 0; raises ConfigError if one fails or is late."""
        self._touch(READY)
        deadline_s = self.now_s() + self.limit_s
        while late := self._without(READY):
            if (self.folder / FAILED_COPY).exists():
                raise ConfigError("another copy of the point has failed")
            if self.now_s() > deadline_s:
                names = ", ".join(map(str, late))
                raise ConfigError(
                    f"copy {self.copy} waited {self.limit_s:g} s to measure at the same time as all copies, but these "
                    f"did not end their warm-up: {names}; see job.err in their folders"
                )
            self.sleep(POLL_S)
        return 0

    def steps_left(self, steps: int) -> int:
        """Return how many steps to add to those measured, so that all copies work until the last one has enough.

        Returns 0 when all have enough, and if one does not within the limit.
        """
        own = self._touch(DONE)
        if not self._without(DONE) or time.time() - own.stat().st_mtime > self.limit_s:
            return 0
        return max(1, steps // MORE_SHARE)

    def _touch(self, state: str) -> Path:
        path = self.folder / f"{state}_{self.copy}"
        if not path.exists():
            path.touch()
        return path

    def _without(self, state: str) -> list[int]:
        """Return the copies that are not in a state yet; lists the folder, as some file systems cache missing files."""
        present = {path.name for path in self.folder.iterdir()}
        return [copy for copy in range(1, self.copies + 1) if f"{state}_{copy}" not in present]


def read_copies(environ: Mapping[str, str] = os.environ) -> Copies | None:
    """Return this copy from the variables that the launcher of copies sets; None if there is only this one."""
    if COPY_VARIABLE not in environ:
        return None
    return Copies(Path(environ[FOLDER_VARIABLE]), int(environ[COPY_VARIABLE]), int(environ[COPIES_VARIABLE]))
