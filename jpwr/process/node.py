"""One sampler per node, even when a launcher starts `jpwr` in every rank."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Mapping, Sequence

from jpwr.errors import JpwrError

# Set by Open MPI, MVAPICH2, Intel MPI and MPICH's Hydra, and last by Slurm, one of whose ranks may have started theirs.
LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
GLOBAL_RANKS = ("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def rank_of(environ: Mapping[str, str], names: Sequence[str]) -> int | None:
    """The first rank that is set, or None."""
    return next((int(environ[name]) for name in names if environ.get(name, "").isdecimal()), None)


def why_not_sampling(
    stack: ExitStack, use_mpi: bool, only_ranks: Sequence[int], environ: Mapping[str, str] = os.environ
) -> str:
    """Why another process of this node samples, empty where this one does.

    The launcher's local rank decides, or the ranks that were asked for. A launcher that sets none is told by
    `use_mpi`: then the processes that it started on this node agree by a lock, which is held as long as the stack.
    """
    if only_ranks:
        rank = rank_of(environ, GLOBAL_RANKS)
        if rank is None:
            raise JpwrError(f"--mpi-ranks was given, but no launcher has set a rank ({', '.join(GLOBAL_RANKS)})")
        return "" if rank in only_ranks else f"rank {rank} is not among the ranks to sample on"
    local_rank = rank_of(environ, LOCAL_RANKS)
    if local_rank is not None:
        return f"local rank {local_rank}: local rank 0 samples this node" if local_rank else ""
    if not use_mpi:
        return ""
    import errno
    import socket

    # Ranks that one launcher has started have the same parent on a node. The name is no file: nobody can put one in its
    # place, and it goes with its process.
    lock = stack.enter_context(socket.socket(socket.AF_UNIX))
    try:
        name = f"jpwr-{os.getuid()}-{os.readlink('/proc/self/ns/pid')}-{os.getppid()}"
        lock.bind(f"\0{name}")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise JpwrError(
                f"the ranks of this node cannot agree which one samples ({error}): name it by --mpi-ranks"
            ) from error
        return f"another process has the lock {name} and samples this node"
    return ""
