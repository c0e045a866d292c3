"""Write the files of a data set in parallel.

Existing files are kept, so that an interrupted program can be started again. A plan next to the files has the options
that they were made with.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.common.launch import usable_cores
from benchmarks.common.options import ConfigError, Group, option
from benchmarks.common.progress import Pace, to_go

Written = TypeVar("Written")


@dataclass(frozen=True)
class MadeOptions(Group):
    """Data to write."""

    out: str = option(MISSING, "folder for the files, such as data/made")
    samples: int = option(32, "number of samples, each in its own file")
    jobs: int | None = option(None, "processes; default: one for each usable core")
    seed: int = option(1234, "seed of the samples", least=0)

    @property
    def plan(self) -> dict[str, Any]:
        """Return the options that determine the content of the data."""
        return {key: value for key, value in asdict(self).items() if key not in ("out", "jobs")}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock during the block, so that only one of several programs makes a data set; the others wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_missing(
    plan_file: Path,
    plan: Mapping[str, Any],
    pattern: str,
    paths: Sequence[Path],
    task: Callable[[int], Callable[[], Written]],
    jobs: int | None,
) -> list[Written]:
    """Write the files that are missing, and print their number and size; return the outcome of each of them.

    `task` takes the index of a missing file and returns what writes it, which must be able to run in another process.
    `pattern` matches all files of the kind. Raises ConfigError if the folder belongs to another plan or cannot be
    written to.
    """
    folder = plan_file.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / ".lock"):
            _check_plan(plan_file, plan, pattern)
            missing = [index for index, path in enumerate(paths) if not path.exists()]
            if not missing:
                print(f"{folder}: is complete already")
                return []
            written = _run(list(map(task, missing)), folder, min(jobs or usable_cores(), len(missing)))
            size_mb = sum(paths[index].stat().st_size for index in missing) / 1e6
            print(f"{folder}: {len(missing)} files with {size_mb:.1f} MB")
            return written
    except OSError as error:
        raise ConfigError(f"the data cannot be written to {folder}: {error}") from error


def _check_plan(plan_file: Path, plan: Mapping[str, Any], pattern: str) -> None:
    """Raise ConfigError if the folder belongs to another plan: a mixture of two plans could not be reproduced."""
    folder = plan_file.parent
    if plan_file.exists():
        found = json.loads(plan_file.read_text())
        changed = [key for key in sorted({*plan, *found}) if plan.get(key) != found.get(key)]
        if changed:
            key = changed[0]
            raise ConfigError(
                f"{folder} has data with {key} {found.get(key)} instead of {plan.get(key)}: choose another folder, or "
                "remove it"
            )
    elif any(folder.glob(pattern)):
        raise ConfigError(f"{folder} has files of unknown origin: choose another folder")
    plan_file.write_text(json.dumps(plan, indent=1) + "\n")


def _run(tasks: Sequence[Callable[[], Written]], folder: Path, jobs: int) -> list[Written]:
    found, pace, begun_s = [], Pace(), time.monotonic()
    for written in (task() for task in tasks) if jobs == 1 else _in_processes(tasks, jobs):
        found.append(written)
        if pace.due:
            print(f"{folder}: {len(found)} of {len(tasks)} files, {to_go(begun_s, len(found), len(tasks))}", flush=True)
    return found


def _in_processes(tasks: Sequence[Callable[[], Written]], jobs: int) -> Iterator[Written]:
    # TensorFlow does not work in a forked process.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(task) for task in tasks]
        try:
            for one in as_completed(running):
                yield one.result()
        except BrokenProcessPool as error:
            raise OSError("a process was killed, perhaps for lack of memory: try fewer --jobs") from error
        finally:
            pool.shutdown(cancel_futures=True)
