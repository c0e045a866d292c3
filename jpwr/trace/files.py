"""Files in a folder that several samplers may share: no file has two writers, or is overwritten."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO, Iterator

TAIL_BYTES = 65536
HEADER_BYTES = 1 << 20
LOCK_TRIES = 100
ENDED = b'# event {"event": "command_ended"'


def own_name(path: Path) -> Path:
    """Return the path with node and process in its name, as in trace.NODE.PID.csv."""
    return path.with_name(f"{path.stem}.{os.uname().nodename}.{os.getpid()}{path.suffix}")


def create_trace(path: Path, header: str) -> tuple[Path, int]:
    """Create a trace with a header; return its path and the descriptor of the file, which is open to read and append.

    It is locked until it is closed. A finished trace of that name is kept as NAME.old, NAME.old.2 and so on. If the
    file may still have a writer, or is no trace, the new one is own_name(path). Raises OSError.
    """
    tried = path
    for number in count(1):
        with suppress(FileExistsError):
            return tried, _create(tried, header)
        if tried == path and _set_aside_trace(path, header):
            continue
        tried = own_name(path) if tried == path else own_name(path).with_suffix(f".{number}{path.suffix}")
    raise AssertionError("there is always a free name")


@contextmanager
def new_table(path: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name at the end of the block, or is removed if the block raises.

    An existing file of that name is kept as NAME.old and so on. Raises OSError.
    """
    part = path.with_name(f".jpwr-{os.urandom(8).hex()}.part")
    with open(part, "xb") as file:
        try:
            yield file
            file.flush()
            while not _named(part, path):
                _set_aside(path)
        finally:
            with suppress(FileNotFoundError):
                part.unlink()


def _named(part: Path, path: Path) -> bool:
    """Give a complete file its name unless the name is taken; return whether it has the name now."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            with open(path, "xb"):
                part.replace(path)
        except FileExistsError:
            return False
    return True


def _create(path: Path, header: str) -> int:
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        _lock(file, tries=LOCK_TRIES)
        rest = header.encode()
        while rest:
            rest = rest[os.write(file, rest) :]
    except BaseException:
        os.close(file)
        path.unlink()
        raise
    return file


def _lock(file: int, tries: int = 1) -> bool | None:
    """Lock a file; return whether that succeeded, or None on a file system without locks."""
    for _ in range(tries):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.01 if tries > 1 else 0)  # a process that checks a new trace locks it for a moment
        except OSError:
            return None
    return False


def _set_aside_trace(path: Path, header: str) -> bool:
    """Rename an older trace unless another sampler may be writing to it; return whether the name is free now."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with open(path, "rb") as file:
            locked = _lock(file.fileno())
            if locked is False or not _is_at_rest(file, header, locked is True):
                return False
            # Another process may have renamed it first, and begun a new one.
            if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                _set_aside(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def _is_at_rest(file: BinaryIO, header: str, locked: bool) -> bool:
    """Whether a trace has no writer: it is complete, or was written on this node and is not locked.

    Locks of other nodes are not visible on every file system.
    """
    first = file.readline(HEADER_BYTES)
    if not first.startswith(header[: header.index("{")].encode()):
        return False
    file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
    return ENDED in file.read() or (locked and _kernel(first) == _kernel(header.encode()))


def _kernel(header: bytes) -> object:
    try:
        meta = json.loads(header.splitlines()[0][header.index(b"{") :])
        return meta.get("boot_id") or meta.get("hostname")
    except (ValueError, RecursionError):
        return header


def _set_aside(path: Path) -> None:
    for number in count(1):
        old = Path(f"{path}.old" if number == 1 else f"{path}.old.{number}")
        with suppress(FileExistsError), open(old, "xb"):
            break
    try:
        path.replace(old)
    except OSError as error:
        old.unlink()
        if not isinstance(error, FileNotFoundError):
            raise
