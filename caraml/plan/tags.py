"""Refuse tags that a workflow does not know, which JUBE would ignore, and tags that exclude each other."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from caraml.errors import SiteError
from caraml.installation import SYSTEMS
from caraml.plan.systems import read_refused, refusal
from jpwr.messages import near
from results.files.systems import Precision
from results.files.workloads import workloads
from results.find.folders import CONFIGURATION

PRECISIONS = {*get_args(Precision)}
TAG_ENTRY = re.compile(r"""^(?!\s*#).*?\btag:\s*("[^"]*"|'[^']*'|[^,}\s#]+)""", re.MULTILINE)
SYSTEM = "system"  # name of the set of each system
CHOICE = re.compile(
    rf"""^ *- (?:\{{name: *(\w+), *tag: *|name: *({SYSTEM})\n +tag: *)["']?([\w.-]+)["']? *[,\n]""", re.MULTILINE
)
NAME = re.compile(r"^name:\s*(\S+)", re.MULTILINE)


def tags_of_run(run: Path) -> set[str]:
    """Return the tags of a run of JUBE; none for a dry run."""
    if not (run / CONFIGURATION).exists():
        return set()
    return {(tag.text or "").strip() for tag in ElementTree.parse(run / CONFIGURATION).iter("tag")}


def check_tags(folder: Path, name: str, tags: Iterable[str]) -> None:
    """Raise SiteError for tags that a workflow does not have, or of which only one can be given.

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
    if unknown := sorted(asked - known):
        hints = "; ".join(f"'{tag}' ({near(tag, sorted(known))})" for tag in unknown)
        raise SiteError(f"{name} has no tag {hints}")
    for kind, choices in _choices(folder, name).items():
        if len(both := sorted(asked & choices)) > 1:
            what = "each is a system" if kind == SYSTEM else f"each chooses the {kind.removeprefix('asked_')}"
            raise SiteError(f"the tags {' and '.join(both)} exclude each other, as {what}: give one of them")


def known_tags(folder: Path, name: str) -> set[str]:
    """Return the tags of a workflow: those in its own file, and those that all workflows share.

    Precisions that the workload does not train in are left out, and systems that cannot be run. Raises SiteError if
    there is no workflow of that name.
    """
    workflows = {workflow: _tags_of(file) for workflow, file in _workflows(folder)}
    if name not in workflows:
        raise SiteError(f"there is no workflow '{name}': {near(name, workflows)}")
    own = workflows.pop(name)
    shared = set().union(*map(_tags_of, folder.glob("include/*.yaml"))) - set().union(*workflows.values())
    facts = workloads().get(name)
    return (own | shared) - (PRECISIONS - set(facts.precisions.split() if facts else PRECISIONS))


def _workflows(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each workflow."""
    for file in sorted(folder.glob("*.yaml")):
        if found := NAME.search(file.read_text(encoding="utf-8")):
            yield found[1], file


def _tags_of(file: Path) -> set[str]:
    """Return every name in a tag expression such as `!(117M|800M)+synthetic`."""
    found = TAG_ENTRY.findall(file.read_text(encoding="utf-8"))
    return {name for expression in found for name in re.findall(r"[\w.-]+", expression)}


def _choices(folder: Path, name: str) -> dict[str, set[str]]:
    """Return the tags that choose the system, and the value of each parameter."""
    found: dict[str, set[str]] = {}
    for file in (dict(_workflows(folder))[name], folder.parent / SYSTEMS, folder / "include" / "plan.yaml"):
        if file.exists():
            for parameter, system, tag in CHOICE.findall(file.read_text(encoding="utf-8")):
                found.setdefault(system or parameter, set()).add(tag)
    return found
