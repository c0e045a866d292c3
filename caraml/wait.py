"""Wait for the last job of a sweep, and write a failed result for each job that ended without one.

A job that the scheduler kills, or that never starts, writes no result: only the scheduler knows its end.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from caraml.errors import CaramlError, SchedulerError
from caraml.installation import checkout
from caraml.plan import job as planned
from caraml.schedulers import Job
from caraml.schedulers.kubernetes import cluster
from caraml.schedulers.kubernetes.state import KubernetesJob
from caraml.schedulers.slurm import JOB_ID
from caraml.schedulers.submit import SCHEDULERS
from caraml.sweep import check_run, no_results, not_started
from record.model import Json
from record.values import count
from results.collect import failed_result
from results.find.folders import ATTEMPTS, points, runs_of
from results.find.records import RESULT_NAME, read_record, write_record
from results.points.repeats import write_row

SUBMITTED = "submitted"
# Files in a point's folder before its job starts; all others belong to one attempt.
MADE_BY_JUBE = {"prepare", *planned.SCRIPTS, planned.POINT, f"{planned.POINT}.in", "stdout", "stderr", ATTEMPTS}
NOT_STARTED = "not started"
OPEN = {"open", NOT_STARTED}
NOT_IN_TIME = 3  # exit code
SETTLE_S = 2.0  # delay of a shared file system, from a job's end until its files are visible here


class Standing(NamedTuple):
    """State of a point: not started, queued, running, open (neither ended nor with a job), ok or failed."""

    state: str
    reason: str = ""  # why it is queued, from the scheduler
    latest_end: str = ""


def wait(run: Path, interval_s: float, limit_s: float | None, keep: bool = False) -> bool:
    """Wait until no point of the sweep is queued or running; return False if the limit came first.

    Points that JUBE has not started are left alone. Then every point that had a job has a result: a job that ended
    without one failed, for the scheduler's reason. A scheduler that stops answering, as during a restart, is reported
    once and asked again. Ended jobs are removed from it, unless `keep` is set.
    """
    started_s, printed, idle_looks = time.monotonic(), "", 0
    answers = True
    while True:
        try:
            standings = settle(run)
            every = [*standings.values(), *[Standing(NOT_STARTED)] * not_started(run)]
            answers, text = True, describe(every)
            states = {standing.state for standing in every}
            # If JUBE itself runs the jobs, none runs for a moment between two of them: look twice.
            idle_looks = 0 if states & {"queued", "running"} else idle_looks + 1
            has_ended = idle_looks > bool(states & OPEN)
            for point in points(run) if has_ended and not keep else ():  # Slurm forgets a job by itself
                cluster.remove(point)
        except SchedulerError as error:
            text = f"{error}; asking again every {interval_s:g} s" if answers else printed
            answers = has_ended = False
        if text != printed:
            print(f"{run}: {text}", flush=True)
            printed = text
        if has_ended:
            break
        if limit_s is not None and time.monotonic() - started_s > limit_s:
            return False
        time.sleep(interval_s)
    for point, standing in standings.items():
        _mark_for_jube(point.parent, standing)
    return True


def _mark_for_jube(folder: Path, standing: Standing) -> None:
    """Let JUBE know that a point has ended; `jube continue` does the same, in a time that grows as points squared."""
    name = {"ok": "done", "failed": "error"}.get(standing.state)
    if name and not any((folder / one).exists() for one in ("done", "error")):
        (folder / name).touch()


def check_schedulers(run: Path) -> None:
    """Raise SchedulerError, within seconds, unless the schedulers of all jobs without a known end answer."""
    for how, job_id in {point.how: point.job_id for point in map(Point.read, points(run)) if point.job_id}.items():
        SCHEDULERS[how].ping(job_id)


def settle(run: Path) -> dict[Path, Standing]:
    """Return the state of each point by its folder, after writing the results of ended jobs.

    Raises SchedulerError, with all results unchanged, if a scheduler does not answer.
    """
    found = [Point.read(folder) for folder in points(run)]
    submitted: dict[str, dict[Path, str]] = {}
    for point in found:
        if point.job_id:
            submitted.setdefault(point.how, {})[point.folder] = point.job_id
    jobs: dict[Path, Job] = {}
    for how, ids in submitted.items():
        jobs |= SCHEDULERS[how].jobs(ids)
    ended = [one for one in found if one.folder in jobs and jobs[one.folder].has_ended and not one.has_results]
    if ended:
        time.sleep(SETTLE_S)
    for point in ended:
        if isinstance(job := jobs[point.folder], KubernetesJob):  # one of Slurm writes them itself
            cluster.bring_results(job, point.folder)
    now = {point.folder: Point.read(point.folder) for point in ended}
    has_none = any(point.folder not in jobs and not point.has_results for point in found)
    in_use = _folders_in_use() if has_none else set[tuple[int, int]]()
    return {one.folder: _settle_point(now.get(one.folder, one), jobs.get(one.folder), in_use) for one in found}


@dataclass(frozen=True)
class Point:
    """A point of a sweep at one moment."""

    folder: Path
    how: str  # it was submitted, as in a system's `submit`
    submitted: Sequence[str]  # the arguments of submit.sh with which it was submitted
    records: Mapping[Path, Json]  # of its runs, by their folders
    job_id: str  # content of `job.id`; empty without a job, and if its end is known
    has_results: bool  # its job has ended, with a result of each run

    @classmethod
    def read(cls, folder: Path) -> Point:
        """Read a point's files."""
        file = folder / SUBMITTED
        submitted = file.read_text().split() if file.exists() else []
        how = submitted[0] if submitted else "sbatch"
        records = {run: read_record(run / RESULT_NAME) for run in runs_of(folder)}
        has_ended = (folder / "ready").exists() or (folder / "error").exists()
        has_results = has_ended and not any(record["status"] == "unfinished" for record in records.values())
        file = folder / JOB_ID
        if not file.exists() or (has_results and SCHEDULERS[how].KEY in records[folder]):
            return cls(folder, how, submitted, records, "", has_results)
        return cls(folder, how, submitted, records, file.read_text(errors="replace").strip(), has_results)

    @property
    def has_failed(self) -> bool:
        """Whether any of its runs has failed."""
        return any(record["status"] not in ("ok", "unfinished") for record in self.records.values())


def describe(standings: Sequence[Standing]) -> str:
    """Return one line on the states of a sweep's points."""
    counts = Counter(standing.state for standing in standings)
    reasons = sorted({standing.reason for standing in standings} - {"", "None", "Priority", "Resources"})
    queued = f" ({', '.join(reasons)})" if reasons else ""
    parts = [
        f"{counts[name]} {name}{queued if name == 'queued' else ''}"
        for name in ("queued", "running", *sorted(OPEN), "ok", "failed")
        if counts[name]
    ]
    latest = max((standing.latest_end for standing in standings if standing.latest_end[:1].isdigit()), default="")
    return f"{count(len(standings), 'point')}: {', '.join(parts)}" + (f"; ends by {latest}" if latest else "")


def _settle_point(point: Point, job: Job | None, in_use: Set[tuple[int, int]]) -> Standing:
    if job is not None and not job.has_ended:
        return Standing("queued" if job.is_queued else "running", job.reason if job.is_queued else "", job.latest_end)
    if not point.has_results and job is None:
        return Standing("running" if _identity(point.folder) in in_use else "open")
    statuses = {record["status"] for record in point.records.values()}
    if job is not None:
        statuses = {_settle_run(point, folder, job) for folder in point.records}
        write_row(point.folder)
    good = statuses == {"ok"}
    if not point.has_results:
        (point.folder / ("ready" if good else "error")).touch()
    return Standing("ok" if good else "failed")


def _settle_run(point: Point, folder: Path, job: Job) -> str:
    """Write what the scheduler knows of an ended job into a run's result, and return the run's status."""
    scheduler = SCHEDULERS[point.how]
    result, ended = point.records[folder], f"{scheduler.TITLE} ended the {job}"
    if not point.has_results and result["status"] == "unfinished":
        result = failed_result(folder, 1, ended)
    result[scheduler.KEY] = scheduler.entry(job)
    if result["status"] != "ok" and not job.ended_by_itself and scheduler.TITLE not in result["error"]:
        result["error"] = f"{ended}; {result['error']}"
    write_record(result, folder / RESULT_NAME)
    return str(result["status"])


def _identity(folder: Path) -> tuple[int, int]:
    """Return what a folder keeps under another name or mount."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def _folders_in_use() -> set[tuple[int, int]]:
    """Return the identities of the folders in which processes of this machine work."""
    found = set()
    for process in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            found.add(_identity(process))
    return found


def retry_failed(run: Path) -> list[Path]:
    """Submit the failed points again, and return their folders; their files are moved below ATTEMPTS.

    A failed run of a point does not count while the point's job waits or runs, as one of several runs may fail. Raises
    SchedulerError, with everything unchanged, if a scheduler does not answer.
    """
    submit = checkout() / "jube" / "include" / "submit.sh"
    standings = settle(run)
    failed = {point: found.submitted for point in standings if (found := Point.read(point)).has_failed}
    for point in [point for point in failed if standings[point].state in ("queued", "running")]:
        del failed[point]
        state, reason = standings[point].state, standings[point].reason
        print(
            f"caraml: {point} has a failed run, but its job is {state}{f' ({reason})' if reason else ''}: it is not "
            "submitted again; wait for the job or cancel it",
            file=sys.stderr,
        )
    jobs = {how: point / JOB_ID for point, (how, *_) in failed.items() if how in SCHEDULERS}
    for how, job in jobs.items():
        SCHEDULERS[how].ping(job.read_text(errors="replace").strip() if job.exists() else "")
    for point in failed:
        cluster.remove(point)
    for point, command in failed.items():
        kept = point / ATTEMPTS / str(len(list(point.glob(f"{ATTEMPTS}/*"))) + 1)
        kept.mkdir(parents=True)
        for path in [path for path in point.iterdir() if path.name not in MADE_BY_JUBE]:
            shutil.move(path, kept / path.name)
        (point.parent / "error").unlink(missing_ok=True)
        values = planned.job(planned.Point.read(point / planned.POINT))
        write_record(planned.planned_result(values), point / RESULT_NAME)
        write_row(point)
        subprocess.run([submit, *command], cwd=point)
    return [*failed]


def check_open(run: Path) -> None:
    """Raise CaramlError unless the folder is a run of JUBE with points."""
    check_run(run)
    if not points(run):
        raise CaramlError(f"{no_results(run)}; if its first step failed, 'caraml check {run}' shows why")
