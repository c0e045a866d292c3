"""A file that is there whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, TextIO


def without_links(path: Path) -> Path:
    """Return the path without links. Path.resolve raises what is no OSError where a link leads to itself."""
    return Path(os.path.realpath(path))


def part_of(path: Path) -> Path:
    """Return the name under which a file is written until it is whole."""
    whole = without_links(path)
    return whole.with_name(f".{whole.name}.{os.getpid()}.part")


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Give a file that takes the place of `path` when the block has ended well, and is gone where it has not.

    Who may read it stays. Raises OSError.
    """
    part = part_of(path)
    with open(part, "x", encoding="utf-8") as file:
        try:
            yield file
            file.flush()
            with suppress(FileNotFoundError):
                part.chmod(stat.S_IMODE(path.stat().st_mode))
            part.replace(without_links(path))
        except BaseException:
            part.unlink()
            raise
