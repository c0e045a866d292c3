"""Run a benchmark so that it always leaves a record, also of a failure."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, cast

from benchmarks.common.launch import Launch
from benchmarks.common.node.out_of_memory import is_out_of_memory, short_message
from benchmarks.common.options import EXIT_BAD_OPTIONS, ConfigError
from benchmarks.common.record import FAILED, OK, OUT_OF_MEMORY, RunRecord
from benchmarks.common.summary import summary

EXIT_FAILED = 1
RECORD_BYTES = 100_000  # size of a record of thousands of steps
RESULT_PREFIX = "CARAML_RESULT "  # of a printed record's line


def run_recorded(
    record: RunRecord,
    path: str,
    launch: Launch,
    body: Callable[[RunRecord], None],
) -> int:
    """Let `body` run and fill in the record, store it at the path if there is one, and return the exit code.

    Rank 0 prints a summary at the end, and the whole record if it cannot be stored.
    """
    exit_code = EXIT_FAILED
    try:
        body(record)
        exit_code = 0 if record.status == OK else EXIT_FAILED
    except ConfigError as error:
        record.error, exit_code = str(error), EXIT_BAD_OPTIONS
    except Exception as error:
        traceback.print_exc()
        record.status = OUT_OF_MEMORY if is_out_of_memory(error) else FAILED
        record.error = f"rank {launch.rank}: {type(error).__name__}: {short_message(error)}"
    # Every failed rank reports, as the launcher may end rank 0 before it can.
    if launch.rank == 0 or exit_code:
        problem = record.error
        try:
            if not store_record(record, path):
                return exit_code
        except OSError as error:
            problem = (
                f"the record {path} cannot be written ({error.strerror}): it was printed instead, in the line that "
                f"begins with {RESULT_PREFIX}"
            )
            exit_code = exit_code or EXIT_FAILED
            print(RESULT_PREFIX + json.dumps(record.to_dict(), sort_keys=True), flush=True)
        print(summary(record, path), flush=True)
        if problem:
            print(f"{record.benchmark}: error: {problem}", file=sys.stderr)
    return exit_code


def leave(exit_code: int) -> NoReturn:
    """End this process: run the registered exit functions, but do not finalize Python.

    A framework's threads live as long as anything refers to its process group, as megatron-core and PyTorch's own
    modules do. If such a thread releases a tensor during Python's finalization, Python before 3.14 ends the thread in a
    way that aborts the process: a good run would end by a signal.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    # C's exit, as preloaded tools write their counts then. PyDLL keeps Python's lock, so that no thread continues.
    ctypes.PyDLL(None).exit(exit_code)
    raise AssertionError("exit does not return")


def skip_imports(*packages: str) -> None:
    """Treat packages as not installed: frameworks import what they find, which costs seconds at each start."""
    for name in packages:
        cast(dict[str, Any], sys.modules).setdefault(name, None)


def check_record_path(record: str) -> None:
    """Raise ConfigError unless a new record can be written to that path."""
    if not record:
        return
    path = Path(record)
    if path.exists():
        raise ConfigError(
            f"--record {path} exists already, and no result is overwritten: remove it, or choose another name"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            probe.write_bytes(bytes(RECORD_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--record {path} cannot be written ({error.strerror}): choose a writable folder with free space"
        ) from error


def store_record(record: RunRecord, path: str) -> bool:
    """Store the record, completely or not at all, if a path is given.

    Returns False if the run has a record already: that of the rank that failed first shows the cause. Raises OSError if
    the record cannot be written.
    """
    if path:
        part = Path(f"{path}.{os.getpid()}.part")
        try:
            part.write_text(json.dumps(record.to_dict(), indent=1, sort_keys=True) + "\n")
            os.link(part, path)
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
    return True
