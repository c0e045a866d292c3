"""One sampler per node, even when a launcher starts `jpwr` in every rank."""

from __future__ import annotations

import os
from typing import Mapping, Sequence

from jpwr.errors import JpwrError

# Set by Open MPI, MVAPICH2, Intel MPI and MPICH's Hydra, Cray's PALS and Flux. Slurm's come last: one of its ranks may
# have started another launcher.
LOCAL_RANKS = (
    *("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID"),
    *("FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"),
)
GLOBAL_RANKS = (
    *("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PALS_RANKID", "FLUX_TASK_RANK"),
    "SLURM_PROCID",
)


def rank_of(environ: Mapping[str, str], names: Sequence[str]) -> int | None:
    """Return the value of the first variable that is set to a rank, or None."""
    return next((int(environ[name]) for name in names if environ.get(name, "").isdecimal()), None)


def why_not_sampling(use_mpi: bool, only_ranks: Sequence[int], environ: Mapping[str, str] = os.environ) -> str:
    """Return why this process does not sample the node; empty if it does.

    The launcher's local rank decides, or `only_ranks`. Raises JpwrError where `use_mpi` or `only_ranks` needs a rank,
    and the launcher has set none.
    """
    names = GLOBAL_RANKS if only_ranks else LOCAL_RANKS
    rank = rank_of(environ, names)
    if rank is None:
        if use_mpi or only_ranks:
            option = "--mpi-ranks" if only_ranks else "--use-mpi"
            raise JpwrError(
                f"{option} was given, but no launcher has set a rank ({', '.join(names)}): start jpwr by a launcher "
                "that does, or leave it out"
            )
        return ""
    if only_ranks:
        return "" if rank in only_ranks else f"rank {rank} is not among the ranks to sample on"
    return f"local rank {rank}: local rank 0 samples this node" if rank else ""
