"""Files of traces in a folder that several samplers may share: none has two writers, or is overwritten."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

HEADER = "# jpwr-trace "
HEADER_BYTES = 1 << 20
TAIL_BYTES = 65536
ENDED = b'# event {"event": "command_ended"'


def own_name(path: Path) -> Path:
    """Return the path with node and process in its name, as in trace.NODE.PID.csv."""
    return path.with_name(f"{path.stem}.{os.uname().nodename}.{os.getpid()}{path.suffix}")


def create_trace(path: Path, header: str) -> tuple[Path, int]:
    """Create a trace with a header; return its path and the descriptor of the file, which is open to read and append.

    It is locked until it is closed. An older trace of that name is kept as NAME.old, NAME.old.2 and so on. If the file
    may still have a writer, or is no trace, the new one is own_name(path). Raises OSError.
    """
    own = own_name(path)
    for name in chain([path, own], (own.with_suffix(f".{number}{path.suffix}") for number in count(2))):
        while True:
            with suppress(FileExistsError):
                return name, _create(name, header)
            if not _set_aside(name, header):
                break
    raise AssertionError("there is always a free name")


def _create(path: Path, header: str) -> int:
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)  # _set_aside() of another process may have locked it for a moment
        rest = header.encode()
        while rest:
            rest = rest[os.write(file, rest) :]
    except BaseException:
        os.close(file)
        path.unlink()
        raise
    return file


def _set_aside(path: Path, header: str) -> bool:
    """Rename an older trace unless it may have a writer; return whether the name is free now.

    It has none if it can be locked, and is complete or was written on this node: locks of other nodes are not visible
    on every file system.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kernel = _kernel(file.readline(HEADER_BYTES))
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            if not kernel or (ENDED not in file.read() and kernel != _kernel(header.encode())):
                return False
            # Another process may have renamed it first, and begun a new one.
            if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                names = (Path(f"{path}.old" if number == 1 else f"{path}.old.{number}") for number in count(1))
                path.replace(next(name for name in names if not os.path.lexists(name)))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _kernel(header: bytes) -> object:
    """Return what identifies the node in a trace's header: None if it is none, or "this one" if it has no node."""
    if not header.startswith(HEADER.encode()):
        return None
    try:
        meta = json.loads(header.splitlines()[0][len(HEADER) :])
        return meta.get("boot_id") or meta.get("hostname") or "this one"
    except (ValueError, RecursionError):
        return None
