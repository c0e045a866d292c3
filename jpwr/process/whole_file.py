"""Files that are replaced as a whole."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, TextIO


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it replaces `path` at the end of the block, or is removed if the block raises.

    The permissions of `path` are kept. A device or a pipe is written to directly. Raises OSError, with the name of
    `path`.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    whole = Path(os.path.realpath(path))
    part = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    try:
        yield part
        with suppress(FileNotFoundError):
            part.chmod(stat.S_IMODE(path.stat().st_mode))
        part.replace(whole)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(part)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text, in UTF-8, or bytes into a file, completely or not at all; raises OSError with its name."""
    with replaced(path) as part:
        part.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a file that replaces `path` at the end of the block, as `replaced` does."""
    with replaced(path) as part, open(part, "w", encoding="utf-8") as file:
        yield file
