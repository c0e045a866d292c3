"""Processes of a server that runs already, from the kernel's tables in /proc."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from jpwr.process.tree import descendants

PROC = Path("/proc")
LISTENS = "0A"  # TCP_LISTEN of the kernel's include/net/tcp_states.h, as /proc/net/tcp writes it


def processes_of(port: int) -> set[int]:
    """Return the processes that listen at a TCP port of this node, and all that descend from them.

    Empty if none can be seen: those of other users, and of other PID or network namespaces, cannot.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    every = [int(path.name) for path in PROC.glob("[0-9]*")]
    found = {pid for pid in every if sockets & set(_files(pid))} if sockets else set()
    return found | descendants(found)


def _listening(port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen at a port (Linux, Documentation/networking/proc_net_tcp.rst)."""
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROC / "net" / name).read_text().splitlines()[1:]:
                _, local, _, state, *rest = line.split()
                if state == LISTENS and int(local.rpartition(":")[2], 16) == port:
                    yield rest[5]


def _files(pid: int) -> Iterator[str]:
    with suppress(OSError):  # it has ended, or is another user's
        for path in (PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                yield str(path.readlink())
