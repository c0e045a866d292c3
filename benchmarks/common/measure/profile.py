"""Steps after the window under the framework's own profiler."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.common.measure.measured import Session
from benchmarks.common.node.out_of_memory import short_message
from benchmarks.common.options import ConfigError, RunOptions

PROFILE_SUFFIX = ".profile"


def check_profile(options: RunOptions) -> None:
    """Raise ConfigError if a profile would overwrite another."""
    if options.profile and (folder := Path(options.record).with_suffix(PROFILE_SUFFIX)).exists():
        raise ConfigError(f"--profile writes into {folder}, which exists already: remove it")


def profile(session: Session) -> None:
    """Make further steps on every rank, and profile rank 0; a failure is reported and does not fail the run."""
    options, target, profiler = session.options.run, session.target, ExitStack()
    try:
        if session.launch.rank == 0 and target.profile:
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
