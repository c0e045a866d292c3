"""Refuse a tag that no workflow knows: JUBE would ignore it.

Usage: check_tags.py FOLDER_OF_WORKFLOWS RUN_FOLDER. Known is what stands in a `tag:` of the workflows' files; what
was asked for stands in the configuration that JUBE stored. Prints the tags of the run.
"""

from __future__ import annotations

import difflib
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

TAG_ENTRY = re.compile(r"""\btag:\s*("[^"]*"|'[^']*'|[^,}\s]+)""")


def known_tags(workflows: Path) -> set[str]:
    """Every name in a tag expression such as `!(117M|800M)+synthetic`."""
    files = [*workflows.glob("*.yaml"), *workflows.glob("include/*.yaml")]
    expressions = [found for file in files for found in TAG_ENTRY.findall(file.read_text())]
    return {name for expression in expressions for name in re.findall(r"[\w.-]+", expression)}


def main() -> None:
    workflows, run = map(Path, sys.argv[1:])
    configuration = run / "configuration.xml"
    if not configuration.exists():  # a dry run of JUBE stores nothing
        return
    asked = {(tag.text or "").strip() for tag in ElementTree.parse(configuration).iter("tag")}
    known = known_tags(workflows)
    for tag in sorted(asked - known):
        near = difflib.get_close_matches(tag, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        sys.exit(f"there is no tag {tag}: {hint}The tags are {' '.join(sorted(known))}")
    print(" ".join(sorted(asked)), end="")


main()
