"""Waiting in tests: for what must be seen, however long a busy machine takes; the limit is against hanging alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PATIENCE_S = 1800.0
NEVER_S = 86_399  # for a program that a test ends
POLL_S = 0.02

Seen = TypeVar("Seen")


def until(look: Callable[[], Seen], what: str, explain: Callable[[], str] = lambda: "") -> Seen:
    """The first true answer of `look`; fails with `what` did not come, and an explanation such as a log."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (seen := look()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{what} did not come within {PATIENCE_S:.0f} s; {explain()}")
        time.sleep(POLL_S)
    return seen


def processes(folder: Path, *words: str, below: bool = False) -> dict[int, list[str]]:
    """The command lines of those that work in a folder, or below it, and have all of these words in theirs."""
    here, found = folder.resolve(), {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            cwd = (process / "cwd").readlink()
            if cwd != here and not (below and here in cwd.parents):
                continue
            command = (process / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue  # it has ended, or is another user's
        if set(words) <= set(command):
            found[int(process.name)] = command
    return found


def sleeper(folder: Path) -> int | None:
    """The process `sleep NEVER_S` in a folder, where there is one."""
    command = ["sleep", str(NEVER_S)]
    return next((pid for pid, found in processes(folder, *command).items() if found == command), None)
