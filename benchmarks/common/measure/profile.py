"""Some steps after the window under the framework's own profiler."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.common.measure.measured import Session
from benchmarks.common.node.out_of_memory import telling_line
from benchmarks.common.options import ConfigError, RunOptions

PROFILE_SUFFIX = ".profile"


def check_profile(options: RunOptions) -> None:
    """Raise ConfigError where a profile would be written over another."""
    if options.profile and (folder := Path(options.record).with_suffix(PROFILE_SUFFIX)).exists():
        raise ConfigError(f"--profile writes into {folder}, which exists already: remove it")


def profile(session: Session) -> None:
    """Make some more steps on every rank; rank 0 is profiled. A run is none the worse where that fails."""
    options, target, profiler = session.options.run, session.target, ExitStack()
    try:
        if session.launch.rank == 0 and target.profile:
            profiler.enter_context(target.profile(Path(options.record).with_suffix(PROFILE_SUFFIX)))
    except Exception as error:
        print(f"there is no profile: {telling_line(error)}", file=sys.stderr)
    for _ in range(options.profile):
        session.training.data.call()
    session.training.synchronize()
    try:
        profiler.close()
    except Exception as error:  # such as a full disk
        print(f"the profile cannot be written: {telling_line(error)}", file=sys.stderr)
