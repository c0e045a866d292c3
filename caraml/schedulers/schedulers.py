"""Interface of a scheduler, and the available schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from caraml.errors import SiteError
from caraml.plan.site import Site
from caraml.schedulers.job import Job
from caraml.schedulers.kubernetes.cluster import Kubernetes, check_access
from caraml.schedulers.slurm import Slurm


class Scheduler(Protocol):
    """A scheduler; every method raises SchedulerError if it does not answer.

    A job_id is the content of `job.id`, written when the job was submitted.
    """

    title: str  # its name in messages
    key: str  # of a job's entry in a result

    def ping(self, job_id: str) -> None:
        """Raise SchedulerError, within seconds, unless the scheduler of a job answers; empty: the current one."""

    def jobs(self, submitted: Mapping[Path, str]) -> dict[Path, Job]:
        """Return the jobs with these IDs, by the folder in which each was submitted; an unknown job counts as ended."""

    def bring_results(self, job: Any, folder: Path) -> None:
        """Write the results of an ended job, unless the job itself writes them."""

    def remove(self, folder: Path) -> None:
        """Remove the folder's job from the scheduler."""


SCHEDULERS: dict[str, type[Scheduler]] = {"sbatch": Slurm, "kubernetes": Kubernetes}


def check_scheduler(submit: str, site: Site) -> None:
    """Raise an error, within seconds, unless the scheduler of a system's `submit` answers and takes jobs.

    It is SchedulerError, or SiteError if this machine does not have the scheduler's programs.
    """
    try:
        if submit == "sbatch":
            Slurm().ping("")
        elif submit == "kubernetes":
            check_access(site)
    except SiteError as error:
        raise SiteError(f"{error}, or set CARAML_SUBMIT=bash to run jobs here") from error
