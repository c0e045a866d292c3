"""Work on many files, in one process for each core."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

TOGETHER = 50  # items that a process takes at once
Item = TypeVar("Item")
Found = TypeVar("Found")


def for_each(function: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
    """Yield what a function returns for each item, in their order."""
    cores = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, len(items) // TOGETHER)
    # A copy of a process with threads may wait for a lock for ever.
    if cores < 2 or threading.active_count() > 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(function, items)
        return
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        yield from pool.imap(function, items, TOGETHER)


@contextmanager
def all_stays() -> Iterator[None]:
    """Keep Python from searching objects for garbage while millions are made that stay, and these from then on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
