"""Steps after the window that are split into regions, if the framework reports none for usual steps."""

from __future__ import annotations

import sys
import time

from benchmarks.common.measure.measured import Session
from benchmarks.common.measure.regions import PARTS
from benchmarks.common.node.out_of_memory import short_message
from benchmarks.common.workload import InParts


def in_parts(session: Session) -> None:
    """Make further steps that are split into regions, if usual steps cannot be."""
    marked, training = session.marked, session.training
    steps = session.options.run.split_steps
    if not (steps and isinstance(training, InParts)):
        return
    failure = ""
    try:
        training.step_in_parts()  # warm-up
    except Exception as error:  # the run remains valid: split steps need more memory than whole ones
        failure = f"rank {session.launch.rank}: {type(error).__name__}: {short_message(error)}"
    failures = [one for one in session.target.gather(failure) if one]
    if failures:
        if session.launch.rank == 0:
            print(f"no regions are reported, as a step cannot be split: {'; '.join(failures)}", file=sys.stderr)
        return
    marked.begin_window(time.monotonic(), every_step=True)
    for _ in range(steps):
        marked.begin()
        training.step_in_parts()
        marked.end()
    marked.end_window(PARTS, time.monotonic())
