"""The time line of a job that fails at given times and starts again from its last checkpoint, event by event."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from results.verdicts.goodput import JobTimes


class TimeLine(NamedTuple):
    """Outcome of a job; its rest is useful work, and the pauses of complete checkpoints."""

    clock_s: float  # at its end, from its begin
    failures: int
    lost_s: float  # work and pauses between the last complete checkpoint and a failure


def time_line(times: JobTimes, work_s: float, between_s: Iterator[float], checkpoints: int) -> TimeLine:
    """Return the time line until a number of checkpoints is complete; between_s: times from a failure to the next."""
    clock_s = lost_s = 0.0
    ahead_s = since_s = 0.0  # work that the next checkpoint has already; when the work after the last one began
    complete = failures = 0
    failure_s = next(between_s)
    while complete < checkpoints:
        ready_s = clock_s + work_s - ahead_s + times.pause_s + times.delay_s
        if ready_s <= failure_s:
            clock_s, ahead_s, complete = ready_s, times.delay_s, complete + 1
            since_s = clock_s - ahead_s
            continue
        lost_s += failure_s - since_s
        ahead_s, again_s = 0.0, math.inf
        while again_s > failure_s:
            failures, clock_s = failures + 1, failure_s
            failure_s += next(between_s)
            again_s = clock_s + times.restart_s + times.restore_s
        clock_s = since_s = again_s
    return TimeLine(clock_s, failures, lost_s)
