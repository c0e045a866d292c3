"""Refuse a folder whose name a shell, JUBE or a container's runtime would read as more than one, or otherwise."""

from __future__ import annotations

import re
from pathlib import Path

# A separator of JUBE's values, of mounts or of lists of folders, and what a shell reads.
READ_OTHERWISE = re.compile(r"[\s,:;|$\"'`\\&<>(){}\[\]*?!#]")


def wrong_path(path: Path | str, what: str) -> str:
    """One sentence on a path that cannot be used; empty where it can."""
    found = READ_OTHERWISE.search(str(path))
    if not found:
        return ""
    name = "a space" if found[0] == " " else repr(found[0])
    return f"{what} is '{path}', with {name} in its name: take a path of letters, digits and . _ - + = @ alone"
