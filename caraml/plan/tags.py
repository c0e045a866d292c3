"""Refuse a tag that a workflow does not know: JUBE would ignore it."""

from __future__ import annotations

import difflib
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

from caraml.errors import SiteError, near
from caraml.plan.systems import read_refused, refusal
from results.workloads import workloads

CONFIGURATION = "configuration.xml"  # JUBE writes it at the start of a run, and not in a dry run
PRECISIONS = {"fp32", "bf16", "fp16", "fp8"}
TAG_ENTRY = re.compile(r"""^(?!\s*#).*?\btag:\s*("[^"]*"|'[^']*'|[^,}\s#]+)""", re.MULTILINE)
NAME = re.compile(r"^name:\s*(\S+)", re.MULTILINE)


def tags_of_run(run: Path) -> set[str]:
    """Return the tags of a run of JUBE; none for a dry run."""
    if not (run / CONFIGURATION).exists():
        return set()
    return {(tag.text or "").strip() for tag in ElementTree.parse(run / CONFIGURATION).iter("tag")}


def check_tags(folder: Path, name: str, tags: Iterable[str]) -> None:
    """Raise SiteError for a tag that a workflow does not have.

    `folder` has the workflows, and `name` is that of the workflow. A system that cannot be run is refused with its
    reason.
    """
    asked = set(tags)
    if not asked:
        return
    refused = read_refused()
    for tag in sorted(asked & set(refused)):
        raise SiteError(refusal(tag, refused[tag]))
    known = known_tags(folder, name)
    for tag in sorted(asked - known):
        near = difflib.get_close_matches(tag, known, n=1)
        hint = f"did you mean {near[0]}? Its" if near else "its"
        raise SiteError(f"{name} has no tag {tag}: {hint} tags are {' '.join(sorted(known))}")


def known_tags(folder: Path, name: str) -> set[str]:
    """Return the tags of a workflow: those in its own file, and those that all workflows share.

    Precisions that the workload does not train in are left out, and systems that cannot be run. Raises SiteError if
    there is no workflow of that name.
    """
    files = {file: NAME.search(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.yaml"))}
    workflows = {found[1]: _tags_of(file) for file, found in files.items() if found}
    if name not in workflows:
        raise SiteError(f"there is no workflow '{name}': {near(name, workflows)}")
    own = workflows.pop(name)
    shared = set().union(*map(_tags_of, folder.glob("include/*.yaml"))) - set().union(*workflows.values())
    facts = workloads().get(name)
    return (own | shared) - (PRECISIONS - set(facts.precisions.split() if facts else PRECISIONS)) - set(read_refused())


def _tags_of(file: Path) -> set[str]:
    """Return every name in a tag expression such as `!(117M|800M)+synthetic`."""
    found = TAG_ENTRY.findall(file.read_text(encoding="utf-8"))
    return {name for expression in found for name in re.findall(r"[\w.-]+", expression)}
