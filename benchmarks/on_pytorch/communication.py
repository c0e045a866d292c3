"""Collectives of torch.distributed as regions: the time that a step waits for them, and all their time on a lane."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
from typing import Any

import torch.distributed as dist

from jpwr.regions import Moment, RegionTimer
from jpwr.regions.times import COMM

LANE = "communication"
COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "_all_gather_base",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "_reduce_scatter_base",
    "all_to_all_single",
)


@contextmanager
def marked_collectives(timer: RegionTimer, modules: Sequence[ModuleType] = ()) -> Iterator[None]:
    """Mark calls of torch.distributed's collectives inside the block as regions Comm.

    `modules` are further modules that have imported some of them by name.
    """
    marked = {getattr(dist, name): _marked(timer, getattr(dist, name)) for name in COLLECTIVES if hasattr(dist, name)}
    with ExitStack() as stack:
        for module in (dist, *modules):
            for name, value in list(vars(module).items()):
                if type(value) is FunctionType and value in marked:
                    stack.callback(setattr, module, name, value)
                    setattr(module, name, marked[value])
        yield


def _marked(timer: RegionTimer, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def marked(*args: Any, **options: Any) -> Any:
        if not timer.recording:
            return function(*args, **options)
        started = timer.moment() if options.get("async_op") else None
        with timer.region(COMM):
            work = function(*args, **options)
        return MarkedWork(timer, work, started) if started and isinstance(work, dist.Work) else work

    return marked


class MarkedWork:
    """Asynchronous collective: waiting for it is a region Comm, and all its time is on a separate lane.

    Its end is that of the wait, unless `ends` returns it.
    """

    def __init__(
        self, timer: RegionTimer, work: Any, started: Moment, ends: Callable[[], Moment | None] = lambda: None
    ) -> None:
        self._timer, self._work, self._started, self._ends = timer, work, started, ends

    def wait(self, *args: Any) -> Any:
        """Wait until the collective has ended."""
        with self._timer.region(COMM):
            waited = self._work.wait(*args)
        if self._timer.recording:
            self._timer.add(COMM, LANE, self._started, self._ends() or self._timer.moment())
        return waited

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def end_of(timer: RegionTimer, works: list[Any], on_gpu: bool) -> Callable[[], Moment | None]:
    """Return a function that returns the end of collectives, even if nothing waits for them; on GPUs it returns None.

    On a GPU, a stream that waits for their end can delay kernels that are launched later, and thus the training.
    """
    if on_gpu or not timer.recording:
        return lambda: None
    moments: list[Moment] = []
    for work in works:
        work.get_future().add_done_callback(lambda _: moments.append(timer.moment()))
    return lambda: max(moments, default=None)
