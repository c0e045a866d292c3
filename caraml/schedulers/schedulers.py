"""Schedulers by a system's `submit`: modules with the same functions for jobs, by their folders and `job.id`.

`ping`, `jobs` and `entry` are in both. `bring_results` and `remove` are in that of Kubernetes alone: a job of Slurm
writes its results itself, and Slurm forgets it by itself. SchedulerError: the scheduler does not answer.
"""

from __future__ import annotations

from types import ModuleType

from caraml.errors import SiteError
from caraml.plan.site import Site
from caraml.schedulers import slurm
from caraml.schedulers.kubernetes import cluster

SCHEDULERS: dict[str, ModuleType] = {"sbatch": slurm, "kubernetes": cluster}


def check_scheduler(submit: str, site: Site) -> None:
    """Raise an error, within seconds, unless the scheduler of a system's `submit` answers and takes jobs.

    It is SchedulerError, or SiteError if this machine does not have the scheduler's programs.
    """
    try:
        if submit == "sbatch":
            slurm.ping("")
        elif submit == "kubernetes":
            cluster.check_access(site)
    except SiteError as error:
        raise SiteError(f"{error}, or set CARAML_SUBMIT=bash to run jobs here") from error
