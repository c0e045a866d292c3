"""Submit a job to Slurm, and read its state and accounting.

A job number alone is no identity: each cluster counts its own, and uses them again. The file SUBMISSION in a job's
folder has its cluster, its time and a name that no other job has; JOB_ID has its number, and its cluster if the site's
flags state one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.node.programs import NoProgram, ProgramError, ask, words
from caraml.errors import CaramlError, SchedulerError, SiteError
from caraml.schedulers import Job
from jpwr.energy.estimate import JOULES_PER_WH
from jpwr.process.whole_file import write_whole
from record.model import Json
from results.find.records import RESULT_NAME, read_record, write_record

# squeue(1), job state codes of an ended job; with any other code it may still run.
ENDED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
ENDED |= {"PREEMPTED", "RECONFIG_FAIL", "TIMEOUT"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
UNKNOWN, UNSTATED = "UNKNOWN", "unstated"  # ours: a job that Slurm has forgotten; a job that may still run
TIME_LIMIT = "state another limit by sbatch: [--time=HH:MM:SS] in site.yaml, or by CARAML_SBATCH=--time=HH:MM:SS"
NO_ENERGY_J = 1e15  # a larger value marks a missing one, such as 2^64 - 2
# A value may contain spaces: it ends at the next name that scontrol prints.
FIELD = re.compile(r"(?:^|(?<=\s))([A-Z]\w{3,})=(.*?)(?=\s+[A-Z][\w:/]{3,}=|\s*$)", re.MULTILINE)
JOB_LINE = re.compile(r"^JobId=(\d+)\b.*", re.MULTILINE)
CLUSTER_LINE = re.compile(r"^ClusterName *= *(\S+)", re.MULTILINE)
# Variables of the user's shell are for other jobs and queries: SLURM_CLUSTERS asks another cluster, SLURM_TIME_FORMAT
# changes dates, and SLURM_EXPORT_ENV=NONE passes no variables to a job.
OPTIONS = re.compile(r"(SLURM|SBATCH|SRUN|SQUEUE|SACCT|SINFO|SCONTROL)_")
KEPT = {"SLURM_CONF", "SLURM_JWT", *(f"SBATCH_{name}" for name in ("ACCOUNT", "PARTITION", "QOS", "RESERVATION"))}
TITLE, KEY = "Slurm", "slurm"
SUBMISSION, JOB_ID = "slurm.json", "job.id"
NUMBER = re.compile(r"^\s*(\d+(?:;\S+)?)\s*$", re.MULTILINE)  # in what sbatch --parsable and a site's own words print
PING_LIMIT_S = 10  # a working controller answers at once, even if a query of jobs takes long
LIMIT_S = 60
SUBMIT_LIMIT_S = 300  # sbatch itself retries for two minutes while the controller is busy
BEHIND_S = 30.0  # longest delay of the accounting after the scheduler
ASK_AGAIN_S = 0.5
DAY_S = 24 * 3600.0  # more than the clocks and time zones of two machines differ


class Submission(NamedTuple):
    """Identity of the job of a folder, from before it was submitted; empty if the job has none."""

    cluster: str = ""  # the local one of the machine that submitted it
    name: str = ""
    time_s: float = 0.0

    @classmethod
    def read(cls, folder: Path) -> Submission:
        """Read the identity of the job of a folder."""
        file = folder / SUBMISSION
        return cls(**json.loads(file.read_text())) if file.exists() else cls()


class _Row(NamedTuple):
    """A job as scontrol and sacct print it."""

    number: str = ""
    name: str = ""
    folder: str = ""
    state: str = ""
    reason: str = ""
    exit_code: str = ""
    start: str = ""
    end: str = ""
    energy: str = ""  # from sacct alone

    def is_of(self, folder: Path, submission: Submission) -> bool:
        """Return whether this is the job of a folder, which may have been renamed since, or be mounted elsewhere."""
        return self.name == submission.name != "" or Path(self.folder).resolve() == folder.resolve()

    def job(self, folder: Path) -> Job:
        """Return the job, which is that of a folder."""
        state = (self.state or UNSTATED).split()[0]  # "CANCELLED by 1000"
        has_ended, reason = state in ENDED or state == UNKNOWN, self.reason
        if has_ended and state != "COMPLETED" and self.folder and Path(self.folder).resolve() != folder.resolve():
            reason += f"; its folder was {self.folder} when it was submitted"
        energy_j = float(self.energy) if self.energy.isdecimal() else 0.0  # 0 or nothing: not measured
        return Job(
            self.number,
            state,
            reason,
            self.start,
            self.end,
            is_queued=not has_ended and state not in RUNNING,
            has_ended=has_ended,
            ended_by_itself=state in ("COMPLETED", "FAILED"),
            to_do=TIME_LIMIT if state == "TIMEOUT" else "",
            exit_code=self.exit_code,
            consumed_energy_j=energy_j if 0 < energy_j < NO_ENERGY_J else None,
        )


SHOWN = ("JobId", "JobName", "WorkDir", "JobState", "Reason", "ExitCode", "StartTime", "EndTime")  # of a row
ACCOUNTED = ("JobIDRaw", "JobName", "WorkDir", "State", "Reason", "ExitCode", "Start", "End", "ConsumedEnergyRaw")


def submit(folder: Path, flags: Sequence[str]) -> None:
    """Submit the job script of a folder, unless Slurm has its job; raises SiteError if Slurm refuses it.

    An sbatch that was killed, or that lost its connection, may have submitted the job, which is then found by its name.
    If Slurm does not say whether it has the job, the point stays unfinished: the next call asks again.
    """
    known = Submission.read(folder)
    submission = known
    if not known.name:
        name = f"{read_record(folder / RESULT_NAME)['benchmark']}-{secrets.token_hex(8)}"
        submission = Submission(local_cluster(), name, time.time())
        write_whole(folder / SUBMISSION, json.dumps(submission._asdict()) + "\n")
    try:
        job_id = _find(submission.name, flags) if known.name else ""
        job_id = job_id or _sbatch(submission.name, flags)
    except SchedulerError as error:
        result = read_record(folder / RESULT_NAME)
        result["error"] = f"{error}; whether it has the job {submission.name} is unknown: 'jube continue' asks again"
        write_record(result, folder / RESULT_NAME)
        print(result["error"], file=sys.stderr)
    else:
        write_whole(folder / JOB_ID, f"{job_id}\n")


def _sbatch(name: str, flags: Sequence[str]) -> str:
    """Return the number of the submitted job; raises SchedulerError if it is not known whether Slurm has one."""
    done = ask_slurm("sbatch", "--parsable", *flags, f"--job-name={name}", "job.sh", limit_s=SUBMIT_LIMIT_S)
    found = NUMBER.findall(done.stdout) if not done.returncode else []
    if job_id := found[-1] if found else _find(name, flags):
        return job_id
    if not done.returncode:
        raise SchedulerError(f"sbatch printed no job number, but '{done.stdout.strip()[-40:]}'")
    reason = (done.stderr.strip() or words(done)).splitlines()[-1]
    to_do = f": {TIME_LIMIT}" if "time limit" in reason.lower() else ""
    raise SiteError(f"sbatch refused the job: {reason}{to_do}")


def _find(name: str, flags: Sequence[str]) -> str:
    """Return the number of the job of a name, with its cluster if the flags state one; empty without a job."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-M", "--clusters", "--cluster", default="")
    for cluster in parser.parse_known_args(flags)[0].clusters.split(","):
        options = ("--noheader", "--states=all", "--format=%A", f"--name={name}")
        done = ask_slurm("squeue", *options, cluster=cluster)
        if done.returncode:
            raise SchedulerError(f"Slurm does not answer: {words(done)}")
        if numbers := re.findall(r"^\s*(\d+)\s*$", done.stdout, re.MULTILINE):
            return f"{numbers[-1]};{cluster}" if cluster else numbers[-1]
    return ""


def ping(job_id: str) -> None:
    """Raise SchedulerError, within seconds, unless the cluster of a job answers; empty: the current one."""
    done = ask_slurm("scontrol", "ping", cluster=job_id.partition(";")[2], limit_s=PING_LIMIT_S)
    if " is UP" not in done.stdout:
        raise SchedulerError(f"Slurm does not answer: {words(done)}")


def jobs(submitted: Mapping[Path, str]) -> dict[Path, Job]:
    """Return the jobs that were submitted in folders, from the scheduler or, if that forgot them, its accounting.

    One query is for all jobs of a cluster. The state of a job is UNKNOWN if neither knows it. Raises SchedulerError if
    a cluster does not answer.
    """
    submissions = {folder: Submission.read(folder) for folder in submitted}
    local = local_cluster() if any(one.cluster for one in submissions.values()) else ""
    numbers: dict[str, dict[Path, str]] = {}
    for folder, text in submitted.items():
        number, _, cluster = text.partition(";")
        home = submissions[folder].cluster
        numbers.setdefault(cluster or (home if home != local else ""), {})[folder] = number
    found: dict[Path, Job] = {}
    for cluster, of_cluster in numbers.items():
        found |= _jobs(cluster, of_cluster, submissions)
    return found


def entry(job: Job) -> Json:
    """Return a job's entry in a result, with its energy also in watt-hours."""
    keys = ("job_id", "state", "reason", "exit_code", "start", "latest_end", "consumed_energy_j")
    joules = job.consumed_energy_j
    return {key: getattr(job, key) for key in keys} | {"consumed_energy_wh": joules / JOULES_PER_WH if joules else None}


def ask_slurm(
    program: str, *arguments: str, cluster: str = "", limit_s: float = LIMIT_S
) -> subprocess.CompletedProcess[str]:
    """Return a completed program of Slurm, whatever its exit code; every program of Slurm is started here.

    It asks the local cluster, unless another one is stated. Raises SchedulerError if it does not end in time, and
    SiteError if the machine does not have it.
    """
    environ = {name: value for name, value in os.environ.items() if name in KEPT or not OPTIONS.match(name)}
    if program != "sbatch":  # a job has the user's locale
        environ["LC_ALL"] = "C"
    where = [f"--clusters={cluster}"] if cluster else []
    try:
        return ask(program, *where, *arguments, limit_s=limit_s, environ=environ)
    except NoProgram as error:
        raise SiteError(f"{error}: run this on a login node of the system") from error
    except ProgramError as error:
        raise SchedulerError(f"Slurm does not answer: {error}") from error


def local_cluster() -> str:
    """Return the name of this machine's cluster; raises SchedulerError if Slurm does not answer."""
    done = ask_slurm("scontrol", "show", "config", limit_s=PING_LIMIT_S)
    if not (found := CLUSTER_LINE.search(done.stdout)):
        raise SchedulerError(f"Slurm does not answer: {words(done)}")
    return found[1]


def _jobs(cluster: str, numbers: Mapping[Path, str], submissions: Mapping[Path, Submission]) -> dict[Path, Job]:
    """Return the jobs of a cluster, by the folder in which each was submitted."""
    ping(f";{cluster}")
    shown = _shown(cluster, {*numbers.values()})
    jobs = {
        folder: shown[number].job(folder)
        for folder, number in numbers.items()
        if number in shown and shown[number].is_of(folder, submissions[folder])
    }
    ended = {folder for folder, job in jobs.items() if job.has_ended}
    asked = {folder: number for folder, number in numbers.items() if folder in ended or folder not in jobs}
    accounted = _accounted(cluster, asked, submissions, ended)
    for folder, number in numbers.items():
        known = accounted.get(folder)
        if folder not in jobs:
            other = f"the number belongs to another job, in {shown[number].folder}" if number in shown else ""
            jobs[folder] = known or _Row(state=UNKNOWN, reason=other or "Slurm no longer knows the job").job(folder)
        elif known and known.has_ended:
            jobs[folder] = replace(jobs[folder], consumed_energy_j=known.consumed_energy_j)
    ends = f";{cluster}" if cluster else ""
    return {folder: replace(job, job_id=f"{numbers[folder]}{ends}") for folder, job in jobs.items()}


def _shown(cluster: str, numbers: Set[str]) -> dict[str, _Row]:
    """Return the jobs that the scheduler knows, by number; it is asked for one job, or for all that it has."""
    one = numbers if len(numbers) == 1 else set()
    done = ask_slurm("scontrol", "--all", "show", "job", "-o", *one, cluster=cluster)
    if done.returncode:
        if "Invalid job id" not in done.stderr:
            raise SchedulerError(f"Slurm does not answer: {words(done)}")
        return {}
    lines = {found[1]: dict(FIELD.findall(found[0])) for found in JOB_LINE.finditer(done.stdout) if found[1] in numbers}
    return {number: _Row(*(fields.get(key, "") for key in SHOWN)) for number, fields in lines.items()}


def _accounted(
    cluster: str, numbers: Mapping[Path, str], submissions: Mapping[Path, Submission], ended: Set[Path]
) -> dict[Path, Job]:
    """Return jobs from sacct, after waiting until it has the ends of ended ones and thus all their energy.

    An accounting that stays behind is not waited for longer than BEHIND_S. One that is missing, or does not answer, has
    no jobs.
    """
    deadline_s = time.monotonic() + BEHIND_S
    found: dict[Path, Job] = {}
    while numbers:
        since_s = max(DAY_S, min(submissions[folder].time_s for folder in numbers) - DAY_S)
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))
        # All jobs of a number: of several, sacct shows the last one alone without --duplicates.
        which = ("-j", ",".join(sorted({*numbers.values()})), "-S", since, "--duplicates")
        try:
            done = ask_slurm("sacct", "-X", "-n", "-P", "-o", ",".join(ACCOUNTED), *which, cluster=cluster)
        except CaramlError:
            break
        if done.returncode:
            break
        # Some sites print a greeting first: take the lines that describe a job, and of one job the last.
        fields = [line.split("|") for line in done.stdout.splitlines()]
        rows = [_Row(*row) for row in fields if len(row) == len(ACCOUNTED) and row[3]]
        for folder, number in numbers.items():
            for row in rows:
                if row.number == number and row.is_of(folder, submissions[folder]):
                    found[folder] = row.job(folder)
        if time.monotonic() > deadline_s or all(one in found and found[one].has_ended for one in ended):
            break
        time.sleep(ASK_AGAIN_S)
    return found
