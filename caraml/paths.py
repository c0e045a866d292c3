"""Refuse a folder whose name a shell, JUBE or a container's runtime would read as more than one, or otherwise.

Also a command, for the workflow: prints the checkout, or says why it, or the run's folder, cannot be used. It needs
the standard library alone, and no package of ours: a colon in the checkout's name would end PYTHONPATH there.

python caraml/paths.py FOLDER_OF_WORKFLOWS RUN_FOLDER
"""

from __future__ import annotations

import re
import sys
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


if __name__ == "__main__":
    checkout = Path(sys.argv[1]).resolve().parent
    if wrong := wrong_path(checkout, "the checkout") or wrong_path(sys.argv[2], "the run's folder"):
        sys.exit(wrong)
    print(checkout, end="")
