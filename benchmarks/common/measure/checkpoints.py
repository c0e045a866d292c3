"""Checkpoints: written and read back after the window to measure them, or written within it to continue from the last.

A checkpoint is a folder that has its name only once all ranks have written and synced their parts. Uses no framework.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, cast

from benchmarks.common.input_files import drop_from_cache
from benchmarks.common.launch import Launch, mark_window, node_window
from benchmarks.common.measure.measured import Session
from benchmarks.common.measure.turns import ReadCounts
from benchmarks.common.node.out_of_memory import short_message
from benchmarks.common.options import CheckpointOptions, ConfigError
from benchmarks.common.record import CHECKPOINT, RESTORE, RunRecord, Window
from benchmarks.common.workload import BatchFeed, HasState, Options, Target, Workload
from results.record.model import as_json

FACTS = "checkpoint.json"  # what a run must have in common to continue
BEGIN = "step_"  # of the name of a checkpoint
OF_ROUNDS: dict[str, Callable[[Sequence[float]], float]] = {"": fmean, "least_": min, "most_": max}
OF_RANK = re.compile(r"__(\d+)_")  # begin of the names of a rank's files; rank 0 writes all others
COLD_SHARE = 0.9  # of the checkpoint's bytes, which storage must have delivered: files have parts that nothing reads


class CheckpointError(Exception):
    """A checkpoint cannot be written, or does not give the state that was written."""


def asked(options: Options) -> CheckpointOptions:
    """Return the options of checkpoints; a workload without these flags has none."""
    found: CheckpointOptions = getattr(options, "checkpoint", CheckpointOptions())
    return found


def first_step(run: Workload, target: Target, options: Options) -> int:
    """Return the steps of the checkpoint to continue from; 0 without one. Raises ConfigError unless it can be used."""
    folder = asked(options).restore
    if not folder:
        return 0
    last = _last(Path(folder))
    with _in_one_sentence("read from", last, "continue from another by --restore"):
        facts = json.loads((last / FACTS).read_text())
    for name, own in _common(run, target, options).items():
        if facts.get(name) != own:
            raise ConfigError(
                f"--restore {folder} was asked for, but its checkpoint has the {name} {facts.get(name)} and this "
                f"run {own}: continue with the same options on as many devices"
            )
    return int(last.name.removeprefix(BEGIN))


def restore(session: Session) -> None:
    """Check the folder of --checkpoint; continue from the last checkpoint of --restore, with the data that follow."""
    run, training, options = session.run, session.training, asked(session.options)
    if not (options.checkpoint or options.restore):
        return
    if not isinstance(training, HasState):
        raise ConfigError(
            f"--checkpoint or --restore was asked for, but {run.name} cannot write its state on "
            f"{session.target.kind.upper()}s or in several processes: leave it out"
        )
    if options.checkpoint:
        _check_folder(options, max(session.target.gather(training.state.size_bytes)))
    if options.restore:
        last = _last(Path(options.restore))
        with _in_one_sentence("read from", last, "continue from another by --restore"):
            training.state.load(last)
        for _ in range(run.first_step // training.steps_per_call if run.files else 0):
            cast(BatchFeed, training.data).take()  # other data are the same in each step, or begin at the step


def saving(session: Session) -> Callable[[], None]:
    """Return a call of the window, which also writes a checkpoint where --checkpoint-every requests one."""
    training, options = session.training, asked(session.options)
    if not options.checkpoint_every:
        return training.data.call
    folder, steps = Path(options.checkpoint), session.run.first_step

    def call() -> None:
        nonlocal steps
        before, steps = steps, steps + training.steps_per_call
        training.data.call()
        if before // options.checkpoint_every < steps // options.checkpoint_every:
            training.synchronize()
            _write(session, folder / f"{BEGIN}{steps:09d}")
            if session.launch.rank == 0:
                for older in _complete_ones(folder)[:-1]:
                    shutil.rmtree(older)

    return call


class Round(NamedTuple):
    """One checkpoint that was written and read back, on this rank."""

    write_s: float
    pause_s: float  # by which training was delayed
    restore_s: float
    written_bytes: int
    state_bytes: int
    storage_bytes: float  # which storage delivered to this process as it read
    steps: int  # made while it was written


def measure(session: Session, record: RunRecord) -> None:
    """Write and read back the checkpoints of --checkpoints, and record their times; the folder is emptied again.

    The state that is read back must be the one that was written. Raises CheckpointError.
    """
    options, target = asked(session.options), session.target
    if not (options.checkpoint and options.checkpoints):
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
    record.metrics["checkpoint_async"] = int(options.async_checkpoint)
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
    return found | {
        "checkpoint_pause_s": fmean(max(one.pause_s for one in ranks) for ranks in rounds),
        "checkpoint_steps": sum(ranks[0].steps for ranks in rounds),
        "checkpoint_cold": int(is_cold),
    }


def _round(session: Session, folder: Path, windows: list[Window]) -> Round:
    options, state = asked(session.options), cast(HasState, session.training).state
    written = state.checksum()
    if options.async_checkpoint:
        write_s, pause_s, steps = _write_while_training(session, folder)
    else:
        write_s = _timed(session, CHECKPOINT, windows, lambda: _write(session, folder))
        pause_s, steps = write_s, 0
        _step(session)  # so that the state differs from the one to read
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
    return Round(write_s, pause_s, restore_s, written_bytes, state.size_bytes, storage_bytes, steps)


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


def _write_while_training(session: Session, folder: Path) -> tuple[float, float, int]:
    """Write a checkpoint during steps; return its seconds, the delay of training, and the number of steps.

    The delay is the difference to the same number of steps without a write.
    """
    session.training.synchronize()
    session.target.gather(None)
    start_s, steps = time.monotonic(), 0
    with _in_one_sentence("written to", folder.parent, "make room, or choose another folder by --checkpoint"):
        part = _begin(session, folder)
        is_written = cast(HasState, session.training).state.start_saving(part)
        while not all(session.target.gather(is_written())):
            _step(session)
            steps += 1
        _complete(session, part, folder)
    write_s = time.monotonic() - start_s
    start_s = time.monotonic()
    for _ in range(steps):
        session.target.gather(True)
        _step(session)
    return write_s, max(0.0, write_s - (time.monotonic() - start_s)), steps


def _step(session: Session) -> None:
    session.training.data.call()
    session.training.synchronize()


def _write(session: Session, folder: Path) -> None:
    """Write a checkpoint, which all ranks have written and synced when this returns."""
    with _in_one_sentence("written to", folder.parent, "make room, or choose another folder by --checkpoint"):
        part = _begin(session, folder)
        cast(HasState, session.training).state.save(part)
        _complete(session, part, folder)


def _begin(session: Session, folder: Path) -> Path:
    """Return the new folder of an incomplete checkpoint."""
    part = folder.with_name(f"incomplete_{folder.name}")
    if session.launch.rank == 0:
        shutil.rmtree(part, ignore_errors=True)  # of a run that was ended as it wrote
        part.mkdir(parents=True)
    session.target.gather(None)
    return part


def _complete(session: Session, part: Path, folder: Path) -> None:
    """Sync each rank's files, and give the checkpoint its name."""
    for path in _own_files(part, session.launch):
        _sync(path)
    session.target.gather(None)
    if session.launch.rank == 0:
        (part / FACTS).write_text(json.dumps(_common(session.run, session.target, session.options)))
        _sync(part / FACTS)
        _sync(part)
        part.rename(folder)
        _sync(folder.parent)
    session.target.gather(None)


def _sync(path: Path) -> None:
    """Wait until storage has a file, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def _in_one_sentence(how: str, folder: Path, remedy: str) -> Iterator[None]:
    """Raise a CheckpointError with the cause of a failure: libraries report those of all ranks, with traces."""
    try:
        yield
    except BaseException as error:
        of_ranks = getattr(error, "failures", None)  # of torch.distributed.checkpoint, whose errors are no Exception
        if not (of_ranks or isinstance(error, Exception)):
            raise
        found: Any = next(iter(of_ranks.values()))[0] if of_ranks else error
        cause = f"{type(found).__name__}: {short_message(found)}"
        raise CheckpointError(f"a checkpoint cannot be {how} {folder} ({cause}): {remedy}") from error


def _last(folder: Path) -> Path:
    """Return the last complete checkpoint of a folder; raises ConfigError if there is none."""
    found = _complete_ones(folder)
    if not found:
        raise ConfigError(
            f"--restore {folder} was asked for, but it has no complete checkpoint: give the folder of a run with "
            "--checkpoint-every"
        )
    return found[-1]


def _complete_ones(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{BEGIN}*"))


def _common(run: Workload, target: Target, options: Options) -> dict[str, Any]:
    """Return what the run that wrote a checkpoint and the one that reads it must have in common."""
    return {
        "workload": run.name,
        "model": run.model(options),
        "data": run.data,
        **asdict(cast(Any, options).training),
        "precision": target.precision,
        **run.layout,
    }


def _check_folder(options: CheckpointOptions, size_bytes: int) -> None:
    """Raise ConfigError unless the folder can have a checkpoint of some bytes, and has none of another run."""
    folder = Path(options.checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        raise ConfigError(
            f"--checkpoint {folder} was asked for, but it cannot be written to ({error.strerror}): choose "
            "another folder"
        ) from error
    if free_bytes < size_bytes:
        raise ConfigError(
            f"--checkpoint {folder} has {free_bytes / 1e9:.3g} GB of free space, but a checkpoint needs at least "
            f"{size_bytes / 1e9:.3g} GB: make room, or choose another folder"
        )
    is_continued = options.restore and Path(options.restore).resolve() == folder.resolve()
    if options.checkpoint_every and not is_continued and _complete_ones(folder):
        raise ConfigError(
            f"--checkpoint {folder} has a checkpoint of another run, which would be replaced: remove it, or continue "
            "from it by --restore"
        )


def _own_files(folder: Path, launch: Launch) -> list[Path]:
    """Return the files that a rank wrote."""
    return [path for path in folder.iterdir() if int((OF_RANK.match(path.name) or "00")[1]) == launch.rank]
