"""Steps after the window: under the framework's profiler, and split into regions if usual steps have none."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.common.measure.measured import Session
from benchmarks.common.measure.regions import PARTS
from benchmarks.common.node.out_of_memory import short_message
from benchmarks.common.options import PROFILE_SUFFIX


def profile(session: Session) -> None:
    """Make further steps on every rank, and profile rank 0; a failure is reported and does not fail the run."""
    options, target, profiler = session.options.run, session.target, ExitStack()
    try:
        if session.launch.rank == 0:
            profiler.enter_context(target.profile(Path(options.record).with_suffix(PROFILE_SUFFIX)))
    except Exception as error:
        print(f"there is no profile: {short_message(error)}", file=sys.stderr)
    for _ in range(options.profile):
        session.training.data.call()
    session.training.synchronize()
    try:
        profiler.close()
    except Exception as error:  # such as a full disk
        print(f"the profile cannot be written: {short_message(error)}", file=sys.stderr)


def in_parts(session: Session) -> None:
    """Make further steps that are split into regions, if usual steps cannot be."""
    marked, training = session.marked, session.training
    steps = session.options.run.split_steps
    if not steps or training.step_in_parts is None:
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
