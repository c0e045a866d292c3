"""Files that are replaced as a whole."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, TextIO


def without_links(path: Path) -> Path:
    """Return the path with links resolved; unlike Path.resolve, raise no RuntimeError for a cycle of links."""
    return Path(os.path.realpath(path))


def part_of(path: Path) -> Path:
    """Return the temporary name of a file while it is written."""
    whole = without_links(path)
    return whole.with_name(f".{whole.name}.{os.getpid()}.part")


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a file that replaces `path` at the end of the block, or is removed if the block raises.

    The permissions of `path` are kept. Raises OSError.
    """
    part = part_of(path)
    with open(part, "w", encoding="utf-8") as file:
        try:
            yield file
            file.flush()
            with suppress(FileNotFoundError):
                part.chmod(stat.S_IMODE(path.stat().st_mode))
            part.replace(without_links(path))
        except BaseException:
            part.unlink()
            raise
