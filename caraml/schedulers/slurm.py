"""State and accounting of a job, as Slurm reports them."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence, Set
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
JOB_LINE = re.compile(r"^JobId=(\d+)\b.*", re.MULTILINE)
CLUSTER_LINE = re.compile(r"^ClusterName *= *(\S+)", re.MULTILINE)
SUBMITTED_ON = "job.cluster"  # file of jube/include/submit.sh
OTHER_CLUSTER = "SLURM_CLUSTERS"  # a variable of the user's shell; scontrol without --clusters asks that cluster
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


def _job(state: str, reason: str = "", job_id: str = "", **more: Any) -> SlurmJob:
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


class Slurm:
    """Slurm and its accounting: one query for all jobs of a cluster."""

    title, key = "Slurm", "slurm"

    def ping(self, job_id: str) -> None:
        """Raise SchedulerError, within seconds, unless the cluster of a job answers."""
        _ping(_parts(job_id)[1])

    def jobs(self, submitted: Mapping[Path, str]) -> dict[Path, Job]:
        """Return the jobs that were submitted in folders, from the scheduler or, if that forgot them, its accounting.

        The state of a job is UNKNOWN if neither knows it, or if the number is another job's. Raises SchedulerError if a
        cluster does not answer.
        """
        found: dict[Path, Job] = {}
        numbers: dict[str, dict[Path, str]] = {}
        homes = {folder: _home(folder) for folder in submitted}
        local = _local_cluster() if any(homes.values()) else ""
        for folder, text in submitted.items():
            number, cluster = _parts(text)
            if number:
                cluster = cluster or (homes[folder] if homes[folder] != local else "")
                numbers.setdefault(cluster, {})[folder] = number
            else:
                found[folder] = _job(UNSTATED, f"sbatch printed no job number, but '{text[-40:]}'", text[-40:])
        for cluster, of_cluster in numbers.items():
            found |= _jobs(cluster, of_cluster)
        return found

    def bring_results(self, job: Job, folder: Path) -> None:
        """Do nothing: a job of Slurm writes its results itself."""

    def remove(self, folder: Path) -> None:
        """Do nothing: Slurm forgets a job by itself."""


def _ping(cluster: str) -> None:
    done = _ask_controller(cluster, "ping", limit_s=PING_LIMIT_S)
    if " is UP" not in done.stdout:
        raise SchedulerError(f"Slurm does not answer: {words(done)}")


def _home(folder: Path) -> str:
    """Return the local cluster of the machine on which a point was submitted; empty if it is not known."""
    file = folder / SUBMITTED_ON
    return file.read_text().strip() if file.exists() else ""


def _local_cluster() -> str:
    done = _ask_controller("", "show", "config", limit_s=PING_LIMIT_S)
    if not (found := CLUSTER_LINE.search(done.stdout)):
        raise SchedulerError(f"Slurm does not answer: {words(done)}")
    return found[1]


def _jobs(cluster: str, numbers: Mapping[Path, str]) -> dict[Path, SlurmJob]:
    """Return the jobs of a cluster, by the folder in which each was submitted."""
    _ping(cluster)
    shown = _shown(cluster, {*numbers.values()})
    jobs = {folder: _as_shown(shown[number], folder) for folder, number in numbers.items() if number in shown}
    ended = {numbers[folder] for folder, job in jobs.items() if job.has_ended and job.state != UNKNOWN}
    accounted = _accounted(cluster, ended, {*numbers.values()} - {*shown})
    for folder, number in numbers.items():
        known = accounted.get(number)
        if number not in shown:
            jobs[folder] = known or _job(UNKNOWN, "Slurm no longer knows the job")
        elif known and known.has_ended and jobs[folder].state != UNKNOWN:
            jobs[folder] = replace(jobs[folder], consumed_energy_j=known.consumed_energy_j)
    ends = f";{cluster}" if cluster else ""
    return {folder: replace(job, job_id=f"{numbers[folder]}{ends}") for folder, job in jobs.items()}


def _as_shown(found: Mapping[str, str], folder: Path) -> SlurmJob:
    """Return a job from the fields that scontrol prints."""
    # The folder can be a copy from another machine, with job numbers of its Slurm.
    if Path(found.get("WorkDir", folder)).resolve() != folder.resolve():
        return _job(UNKNOWN, f"the number belongs to another job, in {found['WorkDir']}")
    return _job(
        found.get("JobState") or UNSTATED,
        found.get("Reason", ""),
        exit_code=found.get("ExitCode", ""),
        start=found.get("StartTime", ""),
        latest_end=found.get("EndTime", ""),
    )


def _shown(cluster: str, numbers: Set[str]) -> dict[str, dict[str, str]]:
    """Return the fields of the jobs that the scheduler knows; it is asked for one job, or for all that it has."""
    one = numbers if len(numbers) == 1 else set()
    done = _ask_controller(cluster, "--all", "show", "job", "-o", *one, limit_s=LIMIT_S)
    if done.returncode:
        if "Invalid job id" not in done.stderr:
            raise SchedulerError(f"Slurm does not answer: {words(done)}")
        return {}
    lines = {found[1]: found[0] for found in JOB_LINE.finditer(done.stdout)}
    return {number: dict(FIELD.findall(lines[number])) for number in numbers & {*lines}}


def _ask_controller(cluster: str, *arguments: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return ask("scontrol", *_of_cluster(cluster), *arguments, limit_s=limit_s, without=OTHER_CLUSTER)
    except ProgramError as error:
        raise SchedulerError(f"Slurm does not answer: {error}") from error


def _accounted(cluster: str, ended: Set[str], forgotten: Set[str]) -> dict[str, SlurmJob]:
    """Return jobs from sacct, after waiting until it has the ends of ended ones and thus all their energy.

    An accounting that stays behind is not waited for longer than BEHIND_S; one that does not answer has no jobs.
    """
    deadline_s = time.monotonic() + BEHIND_S
    found: dict[str, SlurmJob] = {}
    while ended | forgotten:
        fields = "JobIDRaw,State,Reason,ExitCode,Start,End,ConsumedEnergyRaw"
        command = ["sacct", "-X", "-n", "-P", "-o", fields, "-j", ",".join(sorted(ended | forgotten))]
        try:
            done = ask(*command, *_of_cluster(cluster), limit_s=LIMIT_S)
        except ProgramError:
            break
        if done.returncode:
            break
        # Some sites print a greeting first: take the lines that describe a job, and of one job the last.
        rows = [row for row in (line.split("|") for line in done.stdout.splitlines()) if len(row) == 7 and row[1]]
        found = {row[0]: _as_accounted(row) for row in rows}
        if time.monotonic() > deadline_s or all(one in found and found[one].has_ended for one in ended):
            break
        time.sleep(ASK_AGAIN_S)
    return found


def _as_accounted(row: Sequence[str]) -> SlurmJob:
    _, state, reason, exit_code, start, end, energy = row
    # An energy of 0 or nothing was not measured.
    joules = float(energy) if energy.isdecimal() else 0.0
    measured = joules if 0 < joules < NO_ENERGY_J else None
    state = state.split()[0]  # "CANCELLED by 1000"
    return _job(state, reason, exit_code=exit_code, start=start, latest_end=end, consumed_energy_j=measured)


def _parts(text: str) -> tuple[str, str]:
    """Return number and cluster of the job that `sbatch --parsable` printed; empty: no number, the local cluster."""
    found = re.findall(r"^\s*(\d+)(?:;(\S+))?\s*$", text, re.MULTILINE)
    return found[-1] if found else ("", "")


def _of_cluster(cluster: str) -> list[str]:
    """Return the option for a cluster: without it, Slurm asks the local cluster alone."""
    return [f"--clusters={cluster}"] if cluster else []
