"""Submit the job script of a folder to Slurm, once.

This leaves `slurm.json`, the identity of the job, and `job.id`, its number and its cluster if the site's flags state
one.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.node.programs import words
from caraml.errors import SchedulerError, SiteError
from caraml.schedulers.slurm import SUBMISSION, TIME_LIMIT, Submission, ask_slurm, local_cluster
from jpwr.process.whole_file import write_whole
from results.find.records import RESULT_NAME, read_record, write_record

JOB_ID = "job.id"
NUMBER = re.compile(r"^\s*(\d+(?:;\S+)?)\s*$", re.MULTILINE)  # in what sbatch --parsable and a site's own words print
LIMIT_S = 300  # sbatch itself retries for two minutes while the controller is busy


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
    done = ask_slurm("sbatch", "--parsable", *flags, f"--job-name={name}", "job.sh", limit_s=LIMIT_S)
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
