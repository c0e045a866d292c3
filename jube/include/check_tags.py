"""Refuse a tag that the workflow does not know: JUBE would ignore it. And a system that cannot be run.

Usage: check_tags.py FOLDER_OF_WORKFLOWS NAME RUN_FOLDER. What was asked for stands in the configuration that JUBE
stored. Prints the tags of the run.
"""

from __future__ import annotations

import difflib
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from caraml.errors import SiteError
from caraml.systems import read_refused, refusal
from results.records import RecordError
from results.workloads import workloads

PRECISIONS = {"fp32", "bf16", "fp16", "fp8"}
TAG_ENTRY = re.compile(r"""^(?!\s*#).*?\btag:\s*("[^"]*"|'[^']*'|[^,}\s#]+)""", re.MULTILINE)
NAME = re.compile(r"^name:\s*(\S+)", re.MULTILINE)


def tags_of(files: list[Path]) -> set[str]:
    """Every name in a tag expression such as `!(117M|800M)+synthetic`."""
    expressions = [found for file in files for found in TAG_ENTRY.findall(file.read_text(encoding="utf-8"))]
    return {name for expression in expressions for name in re.findall(r"[\w.-]+", expression)}


def known_tags(folder: Path, name: str) -> set[str]:
    """The tags in the workflow's own file, and those that all workflows share: which no other's file has.

    Of precisions those in which the workload trains, and of systems those that can be run.
    """
    files = {file: NAME.search(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.yaml"))}
    workflows = {found[1]: file for file, found in files.items() if found}
    own = tags_of([workflows[name]])
    others = tags_of([file for other, file in workflows.items() if other != name])
    shared = tags_of(sorted(folder.glob("include/*.yaml"))) - others
    return (own | shared) - (PRECISIONS - precisions_of(name)) - set(refused())


def precisions_of(name: str) -> set[str]:
    """In which the workload of that name trains; all of them for one that is not described."""
    try:
        facts = workloads().get(name)
    except (ImportError, RecordError) as error:
        sys.exit(f"{name}: what is known of the workloads cannot be read: {error}")
    return set(facts.precisions.split()) if facts else PRECISIONS


def refused() -> dict[str, str]:
    """The systems that are known and cannot be run, each with the reason."""
    try:
        return read_refused()
    except SiteError as error:
        sys.exit(str(error))


def main() -> None:
    folder, name, run = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    configuration = run / "configuration.xml"
    if not configuration.exists():  # a dry run of JUBE stores nothing
        return
    asked = {(tag.text or "").strip() for tag in ElementTree.parse(configuration).iter("tag")}
    for tag in sorted(asked & set(refused())):
        sys.exit(refusal(tag, refused()[tag]))
    known = known_tags(folder, name)
    for tag in sorted(asked - known):
        near = difflib.get_close_matches(tag, known, n=1)
        hint = f"did you mean {near[0]}? Its" if near else "its"
        sys.exit(f"{name} has no tag {tag}: {hint} tags are {' '.join(sorted(known))}")
    print(" ".join(sorted(asked)), end="")


main()
