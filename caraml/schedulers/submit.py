"""Schedulers by a system's `submit`, and the command that submits the job of the current folder.

It writes what the site states for the job into site.sh, and submits the job unless bash runs it:

    python -m caraml.schedulers.submit bash|sbatch|kubernetes SYSTEM
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from caraml.errors import CaramlError, SiteError
from caraml.installation import missing_package
from caraml.plan.site import Site, job_lines, read_site, sbatch_flags
from caraml.schedulers import slurm
from caraml.schedulers.kubernetes import cluster
from caraml.schedulers.kubernetes.submit import submit as submit_to_kubernetes
from record.files import RecordError

# Modules with the functions `ping`, `jobs` and `entry` for jobs, by their folders and `job.id`.
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return 1, after one sentence, if the job cannot be submitted."""
    how, system = sys.argv[1:] if argv is None else argv
    try:
        site = read_site(system)
        text = "".join(f"{line}\n" for line in job_lines(site))
        Path("site.sh").write_text(text, encoding="utf-8", errors="surrogateescape")  # names of files as they are
        if how == "sbatch":
            slurm.submit(Path.cwd(), sbatch_flags(site))
        elif how == "kubernetes":
            submit_to_kubernetes(Path.cwd(), site)
        elif how != "bash":
            raise CaramlError(f"a job cannot be submitted by '{how}': choose bash, sbatch or kubernetes")
    except (CaramlError, RecordError, ImportError) as error:
        print(missing_package(error) if isinstance(error, ImportError) else error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
