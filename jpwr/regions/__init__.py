"""Timer of a program's regions, such as Forward, Backward, Comm, IO and Update.

    timer = RegionTimer()
    for batch in timer.io(batches):
        with timer.region("Batch"):
            with timer.region("Forward"): ...
    print(table(timer.steps()))

A region is marked by start() and end(), a `with` block, or a decorated function. Regions may be nested and may overlap,
on several threads. They are timed by the host's clock, or by events of a device that are read after the run, so that
the program never waits for the device.
"""

from __future__ import annotations

import threading
import time
from contextlib import ContextDecorator
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from jpwr.errors import JpwrError
from jpwr.regions.times import DEVICE, HOST, IO, Span, Step, steps_of

Item = TypeVar("Item")


class Moment(NamedTuple):
    """A point in time by the host's clock in seconds and, where a device has events, by one of them."""

    time_s: float
    event: Any
    marks_before: int


class Region(ContextDecorator):
    """Region of a timer as a `with` block or as a decorator."""

    def __init__(self, timer: RegionTimer, key: str) -> None:
        self._timer, self._key = timer, key

    def __enter__(self) -> Region:
        self._timer.start(self._key)
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.end(self._key)


class RegionTimer:
    """Timer that takes marks while `recording` and evaluates them afterwards.

    `record_event` returns an event on the device, such as `torch_events()` does: an object with `elapsed_s(since)` in
    seconds, which is called after the run. Regions of all threads are on the device's lane, because frameworks use
    threads of their own for the same device. By the host's clock, each thread has its own lane.
    """

    def __init__(
        self, record_event: Callable[[], Any] | None = None, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.recording = True
        self.record_event = record_event
        self._now_s = now_s
        self._marks: list[tuple[str, bool, float, Any, int]] = []  # key, whether it starts, time, event, thread
        self._added: list[tuple[str, str, Moment, Moment]] = []
        self._at_rest: set[int] = set()  # indices of marks that an idle device passes at once
        self._thread = threading.get_ident()

    def start(self, key: str) -> None:
        """Begin a region."""
        if self.recording:
            self._mark(key, True)

    def end(self, key: str) -> None:
        """End this thread's latest region of that key."""
        if self.recording:
            self._mark(key, False)

    def _mark(self, key: str, starts: bool) -> None:
        thread = threading.get_ident()
        event = self.record_event() if self.record_event else None
        self._marks.append((key, starts, self._now_s(), event, thread))

    def region(self, key: str) -> Region:
        """Return a region for `with timer.region("IO"):`, or `@timer.region("IO")` before a function."""
        return Region(self, key)

    def io(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items; the wait for each one counts as IO."""
        iterator = iter(items)
        while True:
            with self.region(IO):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def moment(self) -> Moment:
        """Return the current moment, for `add`."""
        return Moment(self._now_s(), self.record_event() if self.record_event else None, len(self._marks))

    def add(self, key: str, lane: str, start: Moment, end: Moment) -> None:
        """Add a region on another lane, such as the work of a communication library, between two moments."""
        self._added.append((key, lane, start, end))

    def count(self) -> int:
        """Return the number of marks taken."""
        return len(self._marks)

    def device_at_rest(self) -> None:
        """Note that the device is idle now: at this moment its clock is aligned with the host's."""
        self._at_rest.add(len(self._marks))

    @property
    def lane(self) -> str:
        """Lane by which steps are timed: the device's if it has events."""
        return DEVICE if self.record_event else HOST

    def spans(self) -> list[Span]:
        """Return all regions that have ended, with events on the device's lane too; call it when the device is idle."""
        marks, device_s = self._marks, self._device_times_s()
        begun: dict[tuple[int, str], list[int]] = {}
        found = []
        names: dict[int, str] = {self._thread: HOST}
        for index, (key, starts, time_s, event, thread) in enumerate(marks):
            lane = names.setdefault(thread, f"{HOST}, thread {len(names) + 1}")
            open_ones = begun.setdefault((thread, key), [])
            if starts:
                open_ones.append(index)
            elif open_ones:
                first = open_ones.pop()
                found.append(Span(key, lane, marks[first][2], time_s))
                if event is not None:
                    found.append(Span(key, DEVICE, device_s[first], device_s[index]))
        return found + [self._added_span(one, device_s) for one in self._added]

    def _device_times_s(self) -> list[float]:
        """Return when each mark passed on the device, in seconds of the host's clock.

        The clocks are aligned at the first mark, and where the device was idle. Times are added from mark to mark,
        because the resolution of an event's time is relative to the time since the other event.
        """
        found: list[float] = []
        before, before_s = None, 0.0
        rested = False
        for index, (_, _, time_s, event, _) in enumerate(self._marks):
            rested = rested or index in self._at_rest
            if event is not None:
                is_aligned = rested or before is None
                before_s = time_s if is_aligned else before_s + event.elapsed_s(before)
                before, rested = event, False
            found.append(before_s)
        return found

    def _added_span(self, added: tuple[str, str, Moment, Moment], device_s: Sequence[float]) -> Span:
        key, lane, start, end = added
        anchor = start.marks_before - 1
        while anchor >= 0 and self._marks[anchor][3] is None:
            anchor -= 1
        if start.event is None or end.event is None or anchor < 0:
            return Span(key, lane, start.time_s, end.time_s)
        start_s = device_s[anchor] + start.event.elapsed_s(self._marks[anchor][3])
        return Span(key, lane, start_s, start_s + end.event.elapsed_s(start.event))

    def steps(self) -> list[Step]:
        """Return the times of each Batch by region."""
        return steps_of(self.spans(), self.lane)


class TorchEvent:
    """A CUDA or HIP event of PyTorch on the current stream."""

    def __init__(self) -> None:
        import torch

        self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._event.record()

    def elapsed_s(self, since: TorchEvent) -> float:
        """Return the seconds since an earlier event; both must have passed."""
        return float(since._event.elapsed_time(self._event)) / 1000  # PyTorch reports milliseconds


def torch_events() -> Callable[[], TorchEvent]:
    """Return a function for RegionTimer that records events on PyTorch's GPU; raise JpwrError without one."""
    import torch

    if not torch.cuda.is_available():
        raise JpwrError("events of a GPU were requested, but PyTorch finds none: leave them out")
    return TorchEvent
