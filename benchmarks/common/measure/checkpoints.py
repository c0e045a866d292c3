"""Checkpoints, which are written and read back after the window to measure them. Uses no framework."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.common.input_files import drop_from_cache
from benchmarks.common.launch import Launch, mark_window, node_window
from benchmarks.common.measure.measured import Session
from benchmarks.common.measure.turns import ReadCounts
from benchmarks.common.node.out_of_memory import short_message
from benchmarks.common.options import CheckpointOptions, ConfigError
from benchmarks.common.record import CHECKPOINT, RESTORE, RunRecord, Window
from benchmarks.common.workload import State
from record.part import as_json

OF_ROUNDS: dict[str, Callable[[Sequence[float]], float]] = {"": fmean, "least_": min, "most_": max}
OF_RANK = re.compile(r"__(\d+)_")  # begin of the names of a rank's files; rank 0 writes all others
COLD_SHARE = 0.9  # of the checkpoint's bytes, which storage must have delivered: files have parts that nothing reads


class CheckpointError(Exception):
    """A checkpoint cannot be written, or does not give the state that was written."""


def asked(options: Any) -> CheckpointOptions:
    """Return the options of checkpoints; a workload without these flags has none."""
    found: CheckpointOptions = getattr(options, "checkpoint", CheckpointOptions())
    return found


def check(session: Session) -> None:
    """Raise ConfigError unless checkpoints of the requested folder can be written."""
    run, training, options = session.run, session.training, asked(session.options)
    if not options.checkpoint:
        return
    if training.state is None:
        raise ConfigError(
            f"--checkpoint was asked for, but {run.name} cannot write its state on {session.target.kind.upper()}s or "
            "in several processes: leave it out"
        )
    folder = Path(options.checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(
            f"--checkpoint {folder} was asked for, but it cannot be written to ({error.strerror}): choose "
            "another folder"
        ) from error


class Round(NamedTuple):
    """One checkpoint that was written and read back, on this rank."""

    write_s: float
    restore_s: float
    written_bytes: int
    state_bytes: int
    storage_bytes: float  # which storage delivered to this process as it read


def measure(session: Session, record: RunRecord) -> None:
    """Write and read back the checkpoints of --checkpoints, and record their times; the folder is emptied again.

    The state that is read back must be the one that was written. Raises CheckpointError.
    """
    options, target = asked(session.options), session.target
    if not options.checkpoint:
        return
    folder = Path(options.checkpoint) / f"measured_{target.gather(record.run_id)[0]}"
    windows: list[Window] = []
    try:
        _round(session, folder / "warm-up", [])  # libraries prepare at first
        rounds = [_round(session, folder / str(number), windows) for number in range(options.checkpoints)]
    finally:
        if session.launch.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
    of_ranks = target.gather([list(one) for one in rounds])
    record.metrics |= _metrics([[Round(*one) for one in ranks] for ranks in zip(*of_ranks, strict=True)])
    of_nodes = target.gather(as_json(windows) if session.launch.is_first_on_node else [])
    record.windows += [Window.of(one) for node in of_nodes for one in node]


def _metrics(rounds: Sequence[Sequence[Round]]) -> dict[str, float]:
    """Return the record's metrics from the ranks of each round: times of the slowest rank, and means of the rounds."""
    total = [sum(one.written_bytes for one in ranks) for ranks in rounds]
    found: dict[str, float] = {"checkpoint_rounds": len(rounds), "checkpoint_bytes": fmean(total)}
    for name, size in (("write", "written_bytes"), ("restore", "state_bytes")):
        times_s = [max(getattr(one, f"{name}_s") for one in ranks) for ranks in rounds]
        found |= {f"checkpoint_{name}_{word}s": of(times_s) for word, of in OF_ROUNDS.items()}
        # Ranks wait for each other, so that the one with the most bytes is the slowest.
        most = [max(getattr(one, size) for one in ranks) for ranks in rounds]
        found[f"checkpoint_{name}_gb_per_s"] = fmean(a / b / 1e9 for a, b in zip(most, times_s, strict=True))
    from_storage = [sum(one.storage_bytes for one in ranks) for ranks in rounds]
    is_cold = all(storage >= COLD_SHARE * size for storage, size in zip(from_storage, total, strict=True))
    return found | {"checkpoint_cold": int(is_cold)}


def _round(session: Session, folder: Path, windows: list[Window]) -> Round:
    state = session.training.state
    assert state is not None
    written = state.checksum()
    write_s = _timed(session, CHECKPOINT, windows, lambda: _write(session, state, folder))
    session.training.data.call()  # so that the state differs from the one to read
    session.training.synchronize()
    own = _own_files(folder, session.launch)
    written_bytes = sum(path.stat().st_size for path in own)
    drop_from_cache(own)
    session.target.gather(None)
    reads = ReadCounts(dict)
    restore_s = _timed(session, RESTORE, windows, lambda: state.load(folder))
    reads.edge("end")
    if state.checksum() != written:
        raise CheckpointError(f"the state read from {folder} is not the one that was written: its checksums differ")
    session.target.gather(None)
    if session.launch.rank == 0:
        shutil.rmtree(folder)
    storage_bytes = reads.totals.get("io_read_bytes", 0.0)
    return Round(write_s, restore_s, written_bytes, state.size_bytes, storage_bytes)


def _timed(session: Session, kind: str, windows: list[Window], work: Callable[[], None]) -> float:
    """Do some work on all ranks at the same time, as a window of a kind; return this rank's seconds."""
    session.training.synchronize()
    session.target.gather(None)
    start_s = time.monotonic()
    mark_window(session.launch, "begin", kind, start_s)
    work()
    session.training.synchronize()
    end_s = time.monotonic()
    mark_window(session.launch, "end", kind, end_s)
    windows.append(node_window(start_s, end_s, kind))
    return end_s - start_s


def _write(session: Session, state: State, folder: Path) -> None:
    """Write a checkpoint, which all ranks have written and synced when this returns.

    Raises CheckpointError with the cause of a failure: libraries report those of all ranks, with traces.
    """
    try:
        if session.launch.rank == 0:
            folder.mkdir(parents=True)
        session.target.gather(None)
        state.save(folder)
        for path in _own_files(folder, session.launch):
            _sync(path)
        session.target.gather(None)
        if session.launch.rank == 0:
            _sync(folder)
            _sync(folder.parent)
        session.target.gather(None)
    except BaseException as error:
        of_ranks = getattr(error, "failures", None)  # of torch.distributed.checkpoint, whose errors are no Exception
        if not (of_ranks or isinstance(error, Exception)):
            raise
        found: Any = next(iter(of_ranks.values()))[0] if of_ranks else error
        cause = f"{type(found).__name__}: {short_message(found)}"
        remedy = "make room, or choose another folder by --checkpoint"
        raise CheckpointError(f"a checkpoint cannot be written to {folder.parent} ({cause}): {remedy}") from error


def _sync(path: Path) -> None:
    """Wait until storage has a file, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _own_files(folder: Path, launch: Launch) -> list[Path]:
    """Return the files that a rank wrote."""
    return [path for path in folder.iterdir() if int((OF_RANK.match(path.name) or "00")[1]) == launch.rank]
