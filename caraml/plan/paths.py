"""Refuse a path that a shell, JUBE or a container's runtime would split or change."""

from __future__ import annotations

import re
from pathlib import Path

# Separators of JUBE's values, of mounts and of lists of folders, and special characters of a shell.
SPECIAL = re.compile(r"[\s,:;|$\"'`\\&<>(){}\[\]*?!#]")


def wrong_path(path: Path | str, what: str) -> str:
    """Return one sentence on a path that cannot be used; empty if it can."""
    found = SPECIAL.search(str(path))
    if not found:
        return ""
    name = "a space" if found[0] == " " else repr(found[0])
    return f"{what} is '{path}', with {name} in its name: take a path of letters, digits and . _ - + = @ alone"
