"""Steps after the window that are split into regions, where the framework reports none of its usual steps."""

from __future__ import annotations

import sys
import time

from benchmarks.common.measure.measured import Session
from benchmarks.common.measure.regions import PARTS
from benchmarks.common.node.out_of_memory import telling_line
from benchmarks.common.workload import InParts


def in_parts(session: Session) -> None:
    """Make some more steps, split into their regions, where the usual ones do not tell them."""
    marked, training = session.marked, session.training
    steps = session.options.run.split_steps
    if not (steps and isinstance(training, InParts)):
        return
    lacks = ""
    try:
        training.step_in_parts()  # prepares what it needs
    except Exception as error:  # the run is as good as it was: split steps keep more at a time than whole ones
        lacks = f"rank {session.launch.rank}: {type(error).__name__}: {telling_line(error)}"
    without = [one for one in session.target.gather(lacks) if one]
    if without:
        if session.launch.rank == 0:
            print(f"a step cannot be split, so that its regions are not told: {'; '.join(without)}", file=sys.stderr)
        return
    marked.begin_window(time.monotonic(), every_step=True)
    for _ in range(steps):
        marked.begin()
        training.step_in_parts()
        marked.end()
    marked.end_window(PARTS, time.monotonic())
