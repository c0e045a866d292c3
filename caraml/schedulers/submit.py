"""Write what the site states for the job of the current folder into site.sh, and submit the job unless bash runs it.

python -m caraml.schedulers.submit bash|sbatch|kubernetes SYSTEM
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from caraml.errors import CaramlError
from caraml.installation import missing_package
from caraml.plan.site import job_lines, read_site, sbatch_flags
from caraml.schedulers import slurm_submit
from caraml.schedulers.kubernetes.submit import submit as submit_to_kubernetes
from record.errors import RecordError


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return 1, after one sentence, if the job cannot be submitted."""
    how, system = sys.argv[1:] if argv is None else argv
    try:
        site = read_site(system)
        text = "".join(f"{line}\n" for line in job_lines(site))
        Path("site.sh").write_text(text, encoding="utf-8", errors="surrogateescape")  # names of files as they are
        if how == "sbatch":
            slurm_submit.submit(Path.cwd(), sbatch_flags(site))
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
