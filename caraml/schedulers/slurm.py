"""State and accounting of a job, as Slurm reports them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from caraml.errors import SchedulerError
from caraml.programs import ProgramError, ask, words
from caraml.schedulers.job import Job
from results.record.parts import JOULES_PER_WH

# squeue(1), job state codes of an ended job; with any other code it may still run.
ENDED = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "TIMEOUT",
}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
UNKNOWN, UNSTATED = "UNKNOWN", "unstated"  # ours: a job that Slurm has forgotten; a job that may still run
NO_ENERGY_J = 1e15  # a larger value marks a missing one, such as 2^64 - 2
# A value may contain spaces: it ends at the next name that scontrol prints.
FIELD = re.compile(r"(?:^|(?<=\s))([A-Z]\w{3,})=(.*?)(?=\s+[A-Z][\w:/]{3,}=|\s*$)", re.MULTILINE)
PING_LIMIT_S = 10  # a working controller answers at once, even if a query of jobs takes long
LIMIT_S = 60
BEHIND_S = 30.0  # longest delay of the accounting after the scheduler
ASK_AGAIN_S = 0.5


@dataclass(frozen=True)
class SlurmJob(Job):
    """A job of Slurm."""

    exit_code: str = ""
    consumed_energy_j: float | None = None  # of the whole job, if Slurm measures it

    def to_record(self) -> dict[str, Any]:
        """Return the job's entry in a result, with its energy also in watt-hours."""
        keys = ("job_id", "state", "reason", "exit_code", "start", "latest_end", "consumed_energy_j")
        joules = self.consumed_energy_j
        return {key: getattr(self, key) for key in keys} | {
            "consumed_energy_wh": joules / JOULES_PER_WH if joules else None
        }


def _job(job_id: str, state: str, reason: str = "", **more: Any) -> SlurmJob:
    has_ended = state in ENDED or state == UNKNOWN
    return SlurmJob(
        job_id,
        state,
        reason,
        is_queued=not has_ended and state not in RUNNING,
        has_ended=has_ended,
        ended_by_itself=state in ("COMPLETED", "FAILED"),
        **more,
    )


def ping() -> None:
    """Raise SchedulerError, within seconds, unless Slurm answers."""
    try:
        done = ask("scontrol", "ping", limit_s=PING_LIMIT_S)
    except ProgramError as error:
        raise SchedulerError(f"Slurm does not answer: {error}") from error
    if " is UP" not in done.stdout:
        raise SchedulerError(f"Slurm does not answer: {words(done)}")


class Slurm:
    """Slurm and its accounting, during one look at many jobs; an accounting that fails once is not asked again."""

    title, key = "Slurm", "slurm"

    def __init__(self) -> None:
        self._has_answered = self._has_no_accounting = False

    def ping(self, job_id: str) -> None:
        """Raise SchedulerError, within seconds, unless Slurm answers."""
        ping()

    def job(self, job_id: str, folder: Path) -> SlurmJob:
        """Return the job that was submitted in a folder, from the scheduler or, if that forgot it, its accounting.

        Its state is UNKNOWN if neither knows it, or if the number is another job's. Raises SchedulerError if Slurm does
        not answer.
        """
        text, job_id = job_id, _id(job_id)
        if not job_id:
            return _job(text[-40:], UNSTATED, f"sbatch printed no job number, but '{text[-40:]}'")
        if not self._has_answered:
            ping()
            self._has_answered = True
        try:
            number, *cluster = _selected(job_id)
            done = ask("scontrol", *cluster, "show", "job", "-o", number, limit_s=LIMIT_S)
        except ProgramError as error:
            raise SchedulerError(f"Slurm does not answer: {error}") from error
        if done.returncode:
            if "Invalid job id" not in done.stderr:
                raise SchedulerError(f"Slurm does not answer: {words(done)}")
            return self._accounted(job_id) or _job(job_id, UNKNOWN, "Slurm no longer knows the job")
        found = dict(FIELD.findall(done.stdout))
        # The folder can be a copy from another machine, with job numbers of its Slurm.
        if Path(found.get("WorkDir", folder)).resolve() != folder.resolve():
            return _job(job_id, UNKNOWN, f"the number belongs to another job, in {found['WorkDir']}")
        job = _job(
            job_id,
            found.get("JobState") or UNSTATED,
            found.get("Reason", ""),
            exit_code=found.get("ExitCode", ""),
            start=found.get("StartTime", ""),
            latest_end=found.get("EndTime", ""),
        )
        accounted = self._ended(job_id) if job.has_ended else None
        return replace(job, consumed_energy_j=accounted.consumed_energy_j) if accounted else job

    def bring_results(self, job: Job, folder: Path) -> None:
        """Do nothing: a job of Slurm writes its results itself."""

    def remove(self, folder: Path) -> None:
        """Do nothing: Slurm forgets a job by itself."""

    def _ended(self, job_id: str) -> SlurmJob | None:
        """Return an ended job from sacct, after waiting until the accounting has its end and thus all its energy."""
        deadline_s = time.monotonic() + BEHIND_S
        while (found := self._accounted(job_id)) is None or not found.has_ended:
            if time.monotonic() > deadline_s:
                self._has_no_accounting = True
            if self._has_no_accounting:
                return None
            time.sleep(ASK_AGAIN_S)
        return found

    def _accounted(self, job_id: str) -> SlurmJob | None:
        """Return a job from sacct; None if it is unknown there, or the site has no accounting."""
        if self._has_no_accounting:
            return None
        fields = "State,Reason,ExitCode,Start,End,ConsumedEnergyRaw"
        try:
            done = ask("sacct", "-X", "-n", "-P", "-o", fields, "-j", *_selected(job_id), limit_s=LIMIT_S)
        except ProgramError:
            done = None
        if done is None or done.returncode:
            self._has_no_accounting = True
            return None
        # Some sites print a greeting first: take the last line that describes a job.
        rows = [row for row in (one.split("|") for one in done.stdout.splitlines()) if len(row) == 6 and row[0]]
        if not rows:
            return None
        state, reason, exit_code, start, end, energy = rows[-1]
        # "CANCELLED by 1000"; an energy of 0 or nothing was not measured.
        joules = float(energy) if energy.isdecimal() else 0.0
        measured = joules if 0 < joules < NO_ENERGY_J else None
        state = state.split()[0]
        return _job(job_id, state, reason, exit_code=exit_code, start=start, latest_end=end, consumed_energy_j=measured)


def _id(text: str) -> str:
    """Return the job's ID, or ID;CLUSTER, from the output of `sbatch --parsable`; empty without one."""
    found = re.findall(r"^\s*(\d+(?:;\S+)?)\s*$", text, re.MULTILINE)
    return str(found[-1]) if found else ""


def _selected(job_id: str) -> list[str]:
    """Return a job's number and the option with its cluster: without it, Slurm asks the local cluster alone."""
    number, *cluster = job_id.split(";")
    return [number, *(f"--clusters={name}" for name in cluster)]
