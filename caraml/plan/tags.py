"""Tags of a workflow: refuse those that it does not have, as JUBE ignores them, and those that exclude each other."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from caraml.errors import SiteError
from caraml.plan.systems import read_refused, refusal
from jpwr.messages import near
from results.files.systems import Precision, read_systems
from results.files.typed_files import YamlError, read_yaml, text_of
from results.files.workloads import Facts
from results.find.folders import CONFIGURATION

PRECISIONS = {*get_args(Precision)}
APART, CONTAINER, IMAGE, JOB, ONCE, SHARED = "apart", "container", "image", "job", "once", "shared"
CAPS, CHECKPOINT, CLOCKS, FILL, GATE, IO, OBSERVE = "caps", "checkpoint", "clocks", "fill", "gate", "io", "observe"
TO_LOSS, TORCH = "to-loss", "torch"
# Tags that measure something else than one window of training, or share the node, exclude the tag fill.
EXCLUDED = {
    FILL: {"effective", "cold", IO, CHECKPOINT, SHARED, TO_LOSS, GATE},
    GATE: {TO_LOSS},
    IMAGE: {CONTAINER, JOB},
    OBSERVE: {CAPS, CLOCKS},
}
COMMON = {APART, CONTAINER, IMAGE, JOB, ONCE, SHARED}  # of every workflow


def tags_of_run(run: Path | None) -> set[str]:
    """Return the tags of a run of JUBE; none without one, and for a dry run."""
    if not run or not (run / CONFIGURATION).exists():
        return set()
    return {(tag.text or "").strip() for tag in ElementTree.parse(run / CONFIGURATION).iter("tag")}


def check_tags(folder: Path, facts: Facts, asked: set[str]) -> None:
    """Raise SiteError for tags that the workflow of a workload does not have, or of which only one can be given.

    `folder` has the workflows. A system that cannot be run is refused with its reason.
    """
    if not asked:
        return
    refused = read_refused()
    for tag in sorted(asked & set(refused)):
        raise SiteError(refusal(tag, refused[tag]))
    choices = tags_by_choice(folder, facts)
    known = set().union(*choices.values())
    if unknown := sorted(asked - known):
        hints = "; ".join(f"'{tag}' ({near(tag, sorted(known))})" for tag in unknown)
        raise SiteError(f"{facts.name} has no tag {hints}")
    for tag, others in EXCLUDED.items():
        if tag in asked and (other := sorted(asked & others)):
            raise SiteError(f"the tags {tag} and {other[0]} were asked for, which exclude each other: leave one out")
    for kind, tags in choices.items():
        if kind and len(both := sorted(asked & tags)) > 1:
            what = "each is a system" if kind == "system" else f"each chooses the {kind.removeprefix('asked_')}"
            raise SiteError(f"the tags {' and '.join(both)} exclude each other, as {what}: give one of them")


def tags_by_choice(folder: Path, facts: Facts) -> dict[str, set[str]]:
    """Return the tags of a workload's workflow by what they choose among; under an empty name those of all kinds."""
    workflow = folder / f"{facts.workflow}.yaml"
    try:
        expressions = list(_tagged(read_yaml(workflow, as_nodes=True)))
    except YamlError as error:
        raise SiteError(f"{workflow} cannot be read: {error}") from error
    own = {tag for _, expression in expressions for tag in re.findall(r"[\w.-]+", expression)}
    own -= PRECISIONS | {*facts.lacks.split()}
    choices = {"": own | COMMON | {*facts.tags.split()}, "system": {*read_systems()}, "variant": {*facts.variants}}
    choices["precision"] = {*facts.precisions.split()}
    for name, expression in expressions:
        if expression in own:  # a tag alone chooses the value of a parameter
            choices.setdefault(name, set()).add(expression)
    return choices


def _tagged(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the tag expression, such as `!(117M|800M)+synthetic`, of each entry that has one."""
    if node.id == "mapping":
        if tag := text_of(node, "tag"):
            yield text_of(node, "name"), tag
        for _, value in node.value:
            yield from _tagged(value)
    elif node.id == "sequence":
        for item in node.value:
            yield from _tagged(item)
