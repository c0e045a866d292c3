"""Schedulers: what is asked of one, what it says of a job, and those that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from caraml.plan.site import Site
from caraml.schedulers.job import Job
from caraml.schedulers.kubernetes.cluster import Kubernetes, check_access
from caraml.schedulers.slurm import Slurm


class Scheduler(Protocol):
    """One look at many jobs; each question raises SchedulerError where there is no answer.

    A job_id is what was written to `job.id` when the job was submitted.
    """

    title: str  # in sentences
    key: str  # of what a result says of its job

    def ping(self, job_id: str) -> None:
        """Raise SchedulerError, soon, unless it answers where a job is; empty: any."""

    def job(self, job_id: str, folder: Path) -> Job:
        """The job that was submitted in a folder; one that is not known has ended."""

    def bring_results(self, job: Any, folder: Path) -> None:
        """Make the results of a job that has ended, where the job itself does not."""

    def remove(self, folder: Path) -> None:
        """Leave nothing of the folder's job with the scheduler."""


SCHEDULERS: dict[str, type[Scheduler]] = {"sbatch": Slurm, "kubernetes": Kubernetes}


def check_scheduler(submit: str, site: Site) -> None:
    """Raise SchedulerError, soon, unless what a system's `submit` names answers and takes jobs."""
    if submit == "sbatch":
        Slurm().ping("")
    elif submit == "kubernetes":
        check_access(site)
