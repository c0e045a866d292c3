"""One sampler per node, even when a launcher starts `jpwr` in every rank."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Mapping, Sequence

from jpwr.errors import JpwrError

# Set by Open MPI, MVAPICH2, Intel MPI and MPICH's Hydra. Slurm's come last: one of its ranks may have started mpirun.
LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
GLOBAL_RANKS = ("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def rank_of(environ: Mapping[str, str], names: Sequence[str]) -> int | None:
    """Return the value of the first variable that is set to a rank, or None."""
    return next((int(environ[name]) for name in names if environ.get(name, "").isdecimal()), None)


def why_not_sampling(
    stack: ExitStack, use_mpi: bool, only_ranks: Sequence[int], environ: Mapping[str, str] = os.environ
) -> str:
    """Return why this process does not sample the node; empty if it does.

    The launcher's local rank decides, or `only_ranks`. If the launcher sets no rank and `use_mpi` is given, the
    processes of one launcher on this node compete for a lock, which is held until the stack is closed. Raises JpwrError
    if there is no rank, or no lock.
    """
    if only_ranks:
        rank = rank_of(environ, GLOBAL_RANKS)
        if rank is None:
            raise JpwrError(
                f"--mpi-ranks was given, but no launcher has set a rank ({', '.join(GLOBAL_RANKS)}): leave it out, or "
                "start jpwr by the launcher"
            )
        return "" if rank in only_ranks else f"rank {rank} is not among the ranks to sample on"
    local_rank = rank_of(environ, LOCAL_RANKS)
    if local_rank is not None:
        return f"local rank {local_rank}: local rank 0 samples this node" if local_rank else ""
    if not use_mpi:
        return ""
    import errno
    import socket

    # Ranks of one launcher on a node have the same parent. The socket's name is not a file, so nobody can replace it,
    # and the kernel removes it with the process.
    lock = stack.enter_context(socket.socket(socket.AF_UNIX))
    try:
        name = f"jpwr-{os.getuid()}-{os.readlink('/proc/self/ns/pid')}-{os.getppid()}"
        lock.bind(f"\0{name}")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise JpwrError(
                f"the ranks of this node cannot choose which one samples ({error}): name it by --mpi-ranks"
            ) from error
        return f"another process has the lock {name} and samples this node"
    return ""
