"""Work on many items, in one process for each core."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")
_work: tuple[Callable[[Any], Any], Sequence[Any]] = (id, ())  # what processes have from the one that made them


def for_each(function: Callable[[Item], Found], items: Sequence[Item], together: int = 1) -> Iterator[Found]:
    """Yield what a function returns for each item, in their order; a process takes so many items at once."""
    global _work
    cores = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, len(items) // together)
    # A copy of a process with threads may wait for a lock for ever.
    if cores < 2 or threading.active_count() > 1 or not hasattr(os, "fork"):
        yield from map(function, items)
        return
    # Here, because short commands read few records and start faster without them.
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
    from multiprocessing import get_context

    _work = function, items
    # At Ctrl-C, only the process that made them answers.
    ignore = signal.signal, (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(cores, get_context("fork"), *ignore) as pool:
        try:
            yield from pool.map(_one, range(len(items)), chunksize=together)
        except BrokenProcessPool as error:
            raise OSError(errno.ENOMEM, "a process was killed, most likely for lack of memory: free some") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _one(number: int) -> Any:
    function, items = _work
    return function(items[number])
