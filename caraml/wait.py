"""Watch over a sweep until its last job has ended, and see that each that failed says so.

A job that the scheduler kills, or that never starts, writes nothing: its end is known to the scheduler alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from caraml.errors import SchedulerError, SweepError
from caraml.installation import checkout
from caraml.schedulers.job import Job
from caraml.schedulers.schedulers import SCHEDULERS, Scheduler
from caraml.sweep import check_run, no_results, not_started, points, runs_of
from results.collect import failed_result
from results.record.records import ATTEMPTS, RESULT_NAME, read_record, write_record
from results.record.values import count

JOB_ID, SUBMITTED = "job.id", "submitted"
# What a point's folder has before its job; all else belongs to one attempt.
MADE_BY_JUBE = {
    "prepare",
    "job.sh",
    "node.sh",
    "job.sh.in",
    "node.sh.in",
    "result.json.in",
    "request.yaml",
    "request.yaml.in",
    "stdout",
    "stderr",
    ATTEMPTS,
}
NOT_STARTED = "not started"
OPEN = {"open", NOT_STARTED}
NOT_IN_TIME = 3  # exit code
SETTLE_S = 2.0  # for a shared file system, between a job's end and our looking for its files


class Standing(NamedTuple):
    """State of a point: not started, queued, running, open (not ended, and without a job), ok or failed."""

    state: str
    reason: str = ""  # why it is queued, as the scheduler says
    latest_end: str = ""


def wait(run: Path, interval_s: float, limit_s: float | None, keep: bool = False) -> bool:
    """Wait until no point of the sweep is queued or running; False when the limit came first.

    What JUBE has not started stays so. Then every point that had a job has its result: jobs that the scheduler has
    ended without a word are failed ones, with its reason. One that does not answer, as while it is started again, is
    said once and asked again. What ended jobs leave with it is removed, unless it is to be kept.
    """
    started_s, said, looks_at_rest = time.monotonic(), "", 0
    answers = True
    while True:
        try:
            standings = settle(run) + [Standing(NOT_STARTED)] * not_started(run)
            answers, text = True, describe(standings)
            states = {standing.state for standing in standings}
            # Where JUBE itself runs the jobs, a moment passes between two of them.
            looks_at_rest = 0 if states & {"queued", "running"} else looks_at_rest + 1
            has_ended = looks_at_rest > bool(states & OPEN)
            if has_ended and not keep:
                remove(points(run))
        except SchedulerError as error:
            text = f"{error}; asking again every {interval_s:g} s" if answers else said
            answers = has_ended = False
        if text != said:
            print(f"{run}: {text}", flush=True)
            said = text
        if has_ended:
            break
        if limit_s is not None and time.monotonic() - started_s > limit_s:
            return False
        time.sleep(interval_s)
    if not states & OPEN:  # else JUBE would start them: that is the user's to say
        let_jube_go_on(run)
    return True


def check_schedulers(run: Path) -> None:
    """Raise SchedulerError, soon, unless all answer that have a job of which the sweep does not know the end."""
    for how, job_id in {_how(point): job_id for point in points(run) if (job_id := _job_id(point))}.items():
        SCHEDULERS[how]().ping(job_id)


def settle(run: Path) -> list[Standing]:
    """Return the state of each point, after writing the results of those whose job has ended.

    Raises SchedulerError, and leaves all results unchanged, if a scheduler does not answer.
    """
    found = points(run)
    asked: dict[str, Scheduler] = {}
    jobs: dict[Path, Job] = {}
    for point in found:
        if job_id := _job_id(point):
            how = _how(point)
            if how not in asked:
                asked[how] = SCHEDULERS[how]()
            jobs[point] = asked[how].job(job_id, point)
    ended = [point for point, job in jobs.items() if job.has_ended and not _has_told(point)]
    if ended:
        time.sleep(SETTLE_S)
    for point in ended:
        asked[_how(point)].bring_results(jobs[point], point)
    return [_settle_point(point, jobs.get(point), asked.get(_how(point))) for point in found]


def _how(point: Path) -> str:
    """How a point was submitted, as a system's `submit` says."""
    file = point / SUBMITTED
    return file.read_text().split()[0] if file.exists() else "sbatch"


def remove(found: Sequence[Path]) -> None:
    """Leave nothing of these points with their schedulers; raises SchedulerError when one does not answer."""
    for point in found:
        if _how(point) in SCHEDULERS:
            SCHEDULERS[_how(point)]().remove(point)


def _job_id(point: Path) -> str:
    """The job's name with its scheduler, empty where there is none, or its end is known."""
    file = point / JOB_ID
    if not file.exists():
        return ""
    is_known = SCHEDULERS[_how(point)].key in read_record(point / RESULT_NAME) and _has_told(point)
    return "" if is_known else file.read_text(errors="replace").strip()


def describe(standings: Sequence[Standing]) -> str:
    """One line on a sweep."""
    counts = Counter(standing.state for standing in standings)
    reasons = sorted({standing.reason for standing in standings} - {"", "None", "Priority", "Resources"})
    queued = f" ({', '.join(reasons)})" if reasons else ""
    parts = [
        f"{counts[name]} {name}{queued if name == 'queued' else ''}"
        for name in ("queued", "running", *sorted(OPEN), "ok", "failed")
        if counts[name]
    ]
    latest = max((standing.latest_end for standing in standings if standing.latest_end[:1].isdigit()), default="")
    return f"{count(len(standings), 'point')}: {', '.join(parts)}" + (
        f"; at the latest until {latest}" if latest else ""
    )


def _settle_point(point: Path, job: Job | None, scheduler: Scheduler | None) -> Standing:
    if job is not None and not job.has_ended:
        return Standing("queued" if job.is_queued else "running", job.reason if job.is_queued else "", job.latest_end)
    told = _has_told(point)
    if not told and job is None:
        return Standing("running" if _has_process(point) else "open")
    good = {_settle_run(folder, job, scheduler, told) for folder in runs_of(point)} == {"ok"}
    if not told:
        (point / ("ready" if good else "error")).touch()
    return Standing("ok" if good else "failed")


def _settle_run(folder: Path, job: Job | None, scheduler: Scheduler | None, told: bool) -> str:
    """The status of a run whose job has ended, told or not; what is known of the job goes into its result."""
    result = read_record(folder / RESULT_NAME)
    if job is not None and scheduler is not None:
        ended = f"{scheduler.title} ended the {job}"
        if not told and result["status"] == "unfinished":
            result = failed_result(folder, 1, ended)
        result[scheduler.key] = job.to_record()
        if result["status"] != "ok" and not job.ended_by_itself and scheduler.title not in result["error"]:
            result["error"] = f"{ended}; {result['error']}"
        write_record(result, folder / RESULT_NAME)
    return str(result["status"])


def _has_told(point: Path) -> bool:
    """Has its job said how each of its runs ended?"""
    return ((point / "ready").exists() or (point / "error").exists()) and "unfinished" not in _statuses(point)


def _has_process(point: Path) -> bool:
    """Does a process of this machine work in the folder?"""
    for process in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if process.resolve() == point.resolve():
                return True
        except OSError:
            continue
    return False


def retry_failed(run: Path) -> list[Path]:
    """Submit the failed points again, and only those; what they left is kept below ATTEMPTS. Returns their folders.

    Raises SchedulerError, with everything as it was, when a scheduler does not answer.
    """
    submit = checkout() / "jube" / "include" / "submit.sh"
    settle(run)
    failed = [point for point in points(run) if _statuses(point) - {"ok", "unfinished"}]
    commands = {point: _submitted(point) for point in failed}
    jobs = {how: point / JOB_ID for point, (how, *_) in commands.items() if how in SCHEDULERS}
    for how, job in jobs.items():
        SCHEDULERS[how]().ping(job.read_text(errors="replace").strip() if job.exists() else "")
    remove(failed)
    for point, command in commands.items():
        result = read_record(point / RESULT_NAME)
        kept = point / ATTEMPTS / str(len(list(point.glob(f"{ATTEMPTS}/*"))) + 1)
        kept.mkdir(parents=True)
        for path in [path for path in point.iterdir() if path.name not in MADE_BY_JUBE]:
            shutil.move(path, kept / path.name)
        (point.parent / "error").unlink(missing_ok=True)
        again = {key: result[key] for key in ("schema_version", "benchmark", "system", "model", "work_unit", "layout")}
        again |= {"status": "unfinished", "error": "the job has not ended, or ended without a word"}
        write_record(again, point / RESULT_NAME)
        subprocess.run([submit, *command], cwd=point)
    return failed


def _statuses(point: Path) -> set[str]:
    return {read_record(folder / RESULT_NAME)["status"] for folder in runs_of(point)}


def _submitted(point: Path) -> list[str]:
    """The arguments of submit.sh with which a point was submitted."""
    file = point / SUBMITTED
    if not file.exists():
        raise SweepError(f"{point} does not say how it was submitted: run the sweep again")
    return file.read_text().split()


def let_jube_go_on(run: Path) -> None:
    """JUBE's own record of the sweep follows, so that `jube result` shows it."""
    jube = os.environ.get("JUBE", "jube")
    if not run.name.isdigit():  # a copy, of which JUBE knows nothing
        return
    if shutil.which(jube) is None:
        print(f"caraml: there is no {jube} on this machine: 'jube result' will show what it knew", file=sys.stderr)
        return
    subprocess.run([jube, "continue", str(run.parent), "--id", str(int(run.name))], capture_output=True)


def check_open(run: Path) -> None:
    """Raise SweepError unless the folder is one of a sweep with points."""
    check_run(run)
    if not points(run):
        raise SweepError(f"{no_results(run)}; did its first step fail? 'caraml check {run}' says")
