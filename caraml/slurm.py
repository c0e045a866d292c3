"""What Slurm knows of a job."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

# squeue(1), job state codes: those of a job that has not ended.
ACTIVE = {
    "PENDING",
    "RUNNING",
    "CONFIGURING",
    "COMPLETING",
    "SUSPENDED",
    "REQUEUED",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
}
UNKNOWN = "UNKNOWN"
TIMEOUT_S = 60


class Job(NamedTuple):
    """One job; texts as Slurm prints them, empty where it does not say."""

    job_id: str
    state: str
    reason: str = ""
    exit_code: str = ""
    start: str = ""
    latest_end: str = ""
    consumed_energy_j: float | None = None  # of the whole job, where Slurm measures it

    @property
    def has_ended(self) -> bool:
        return self.state not in ACTIVE

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason not in ("", "None") else ""
        return f"job {self.job_id}: {self.state}{reason}"


def ask(job_id: str, folder: Path) -> Job:
    """The job that was submitted in a folder, as the scheduler or, when that has forgotten it, its accounting says.

    UNKNOWN when neither knows it, or the number is another job's; raises OSError when Slurm does not answer.
    """
    done = _run("scontrol", "show", "job", "-o", job_id)
    accounted = _accounting(job_id)
    if done.returncode:
        if "Invalid job id" not in done.stderr:
            raise OSError(f"Slurm does not answer: {done.stderr.strip() or 'scontrol failed'}")
        return accounted or Job(job_id, UNKNOWN, "Slurm no longer knows the job")
    found = dict(re.findall(r"(\S+?)=(\S*)", done.stdout))
    # A folder can be a copy, from a place where another Slurm counted.
    if Path(found.get("WorkDir", folder)).resolve() != folder.resolve():
        return Job(job_id, UNKNOWN, f"the number is that of another job, in {found['WorkDir']}")
    return Job(
        job_id,
        found.get("JobState", UNKNOWN),
        found.get("Reason", ""),
        found.get("ExitCode", ""),
        found.get("StartTime", ""),
        found.get("EndTime", ""),
        accounted.consumed_energy_j if accounted else None,
    )


def _accounting(job_id: str) -> Job | None:
    """From sacct, where the site has it."""
    fields = "State,Reason,ExitCode,Start,End,ConsumedEnergyRaw"
    try:
        done = _run("sacct", "-X", "-n", "-P", "-j", job_id, "-o", fields)
    except OSError:
        return None
    line = done.stdout.strip().splitlines()
    if done.returncode or not line:
        return None
    state, reason, exit_code, start, end, energy = line[0].split("|")
    # "CANCELLED by 1000"; an energy of 0 or nothing was not measured.
    return Job(job_id, state.split()[0], reason, exit_code, start, end, float(energy or 0) or None)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]} did not answer within {TIMEOUT_S} s") from error
