"""The schedulers that there are. Also a command, for the workflow: does one answer? Says why not, with exit code 1.

python -m caraml.schedulers HOW SYSTEM        (HOW as a system's `submit` says: bash, sbatch or kubernetes)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from caraml.errors import CaramlError
from caraml.kubernetes import cluster
from caraml.kubernetes.cluster import Kubernetes
from caraml.scheduler import Scheduler
from caraml.site import read_site
from caraml.slurm import Slurm
from caraml.systems import SUBMITS

SCHEDULERS: dict[str, type[Scheduler]] = {"sbatch": Slurm, "kubernetes": Kubernetes}


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m caraml.schedulers", description="Does the scheduler answer?")
    parser.add_argument("how", choices=SUBMITS)
    parser.add_argument("system")
    options = parser.parse_args(argv)
    try:
        if options.how == "sbatch":
            Slurm().ping("")
        elif options.how == "kubernetes":
            cluster.check_access(read_site(options.system))
    except CaramlError as error:
        print(f"caraml: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
