"""Find what JUBE silently accepts in a workflow: unknown keys, undefined variables, duplicate names.

Mistakes in the blocks of systems are found, too. The known keys are those that JUBE 2.5.1 and 2.7.1 read and that our
workflows use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from caraml.installation import SYSTEMS
from jpwr.messages import near
from record.errors import RecordError
from results.files.systems import read_systems
from results.files.yaml_files import YamlError, entries, read_nodes, text_of

# Allowed keys of each block, by the key that holds the block.
KEYS = {
    "": "name outpath comment selection parameterset fileset substituteset patternset step analyser result",
    "selection": "tag",
    "parameterset": "name tag duplicate init_with parameter",
    "parameter": "name tag type mode separator duplicate export unit _",
    "fileset": "name tag copy link prepare",
    "substituteset": "name tag iofile sub",
    "iofile": "in out out_mode tag",
    "sub": "source dest mode",
    "patternset": "name tag pattern",
    "pattern": "name tag type mode default unit dotall _",
    "step": "name tag depend use do iterations work_dir suffix max_async shared procs export active",
    "do": "tag active done_file error_file break_file stdout stderr shared work_dir _",
    "use": "from tag _",
    "analyser": "name tag use analyse reduce",
    "analyse": "step file tag",
    "result": "tag use table syslog database result_dir",
    "table": "name tag style sort separator filter transpose column",
    "column": "title tag format colw null_value _",
}
SETS = ("parameterset", "fileset", "substituteset", "patternset")
# The taken part, and an expression on it; without a part, the expression makes one set of all systems.
INCLUDE = re.compile(r"""([^:]+):(?:\["(\w+)"\])?(:.*)?""")
SHELL = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Mistake:
    """Problem in a workflow file, with its line."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.text}"


class UnreadableError(Exception):
    """A file cannot be read as a workflow."""

    def __init__(self, file: Path, line: int, text: str) -> None:
        super().__init__(text)
        self.mistake = Mistake(file, line, text)


@dataclass
class Workflow:
    """Workflow file, and the problems in it."""

    file: Path
    root: Any
    findings: list[Mistake] = field(default_factory=list)

    def find(self, node: Any, text: str) -> None:
        """Add a problem at a node, which can be in another file that the workflow takes a set from."""
        self.findings.append(Mistake(Path(node.start_mark.name), node.start_mark.line + 1, text))


def lint(file: Path) -> list[Mistake]:
    """Return all problems in a workflow and in the files that it takes sets from."""
    findings: set[Mistake] = set(_of_systems(file.parent / "include" / SYSTEMS.name))
    workflows: dict[Path, Workflow] = {}
    to_do = [file]
    for path in to_do:  # grows in the loop
        try:
            workflow = workflows[path] = Workflow(path, _compose(path))
        except UnreadableError as error:
            findings.add(error.mistake)
            continue
        _check_keys(workflow, workflow.root, "")
        _check_twice(workflow)
        if path == file:  # a step from another file is checked as one of this file
            to_do += sorted(_references(workflow) - {file})
    if len(workflows) == len(to_do):  # the names in an unreadable file are not known
        _check_names(workflows[file], {path: workflow.root for path, workflow in workflows.items()})
    findings.update(mistake for workflow in workflows.values() for mistake in workflow.findings)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def _of_systems(file: Path) -> Iterator[Mistake]:
    """Yield the first mistake in the blocks of systems next to a workflow."""
    try:
        if file.exists():
            read_systems(file)
    except RecordError as error:
        yield Mistake(file, 0, str(error).removeprefix(str(file)).lstrip(",: "))


def _compose(file: Path) -> Any:
    """Return the nodes of a file, with their lines; raises UnreadableError if it is not a mapping."""
    try:
        root = read_nodes(file)
    except YamlError as error:
        raise UnreadableError(file, error.line, f"cannot be read: {error.reason}") from error
    if getattr(root, "id", "") != "mapping":
        raise UnreadableError(file, 1, "must hold keys such as 'parameterset' and 'step'")
    for index, (key, value) in enumerate(root.value):
        if value.tag == "!include":
            root.value[index] = (key, _included(file, value))
    return root


def _included(file: Path, node: Any) -> Any:
    """Return the node that `!include FILE:["KEY"]` takes from another file; raises UnreadableError without it."""
    found = INCLUDE.fullmatch(node.value)
    line = node.start_mark.line + 1
    if not found:
        raise UnreadableError(file, line, f"'!include {node.value}' is not of the form !include FILE:[\"KEY\"]")
    if not found[2]:  # the set that JUBE makes of all systems
        return yaml.compose("[{name: system, parameter: [{name: system_name}]}]")
    try:
        other = _compose(file.parent / found[1])
    except UnreadableError as error:
        raise UnreadableError(file, line, f"cannot take in {found[1]}: {error}") from error
    for key, value in other.value:
        if key.value == found[2]:
            return value
    raise UnreadableError(file, line, f"there is no '{found[2]}' in {found[1]}")


def _check_keys(workflow: Workflow, node: Any, place: str) -> None:
    """Find keys that JUBE would ignore."""
    if node.id == "sequence":
        for item in node.value:
            _check_keys(workflow, item, place)
    elif node.id == "mapping":
        for key, value in node.value:
            name = str(key.value)
            if name not in KEYS[place].split():
                hint = _near(name, {*KEYS[place].split()})
                workflow.find(key, f"JUBE knows no key '{name}' in '{place or 'a workflow'}'{hint}")
            elif value.id != "scalar" and name in KEYS:
                _check_keys(workflow, value, name)


def _check_twice(workflow: Workflow) -> None:
    """Find parameters of one set with the same name and tag, of which JUBE would use the last."""
    for node in entries(workflow.root, "parameterset"):
        seen: dict[tuple[str, str], int] = {}
        for entry in entries(node, "parameter"):
            key = text_of(entry, "name"), text_of(entry, "tag")
            if key in seen:
                workflow.find(entry, f"parameter '{key[0]}' is written twice, first in line {seen[key]}")
            seen.setdefault(key, entry.start_mark.line + 1)


def _uses(node: Any) -> Iterator[tuple[Any, str, str]]:
    """Yield for each name under `use` its node, the file it is taken from, and the name."""
    for entry in entries(node, "use"):
        for name in text_of(entry).split(","):
            yield entry, text_of(entry, "from"), name.strip()


def _references(workflow: Workflow) -> set[Path]:
    """Return the files that sets are taken from; a missing one is a finding."""
    found = set()
    for node in entries(workflow.root, "step"):
        for entry, source, _ in _uses(node):
            path = workflow.file.parent / source
            if source and not path.is_file():
                workflow.find(entry, f"there is no file {source}")
            elif source:
                found.add(path)
    return found


def _used_sets(workflow: Workflow, roots: dict[Path, Any], node: Any) -> list[Any]:
    """Return the sets that a step uses."""
    chosen = []
    for entry, source, name in _uses(node):
        path = workflow.file.parent / source if source else workflow.file
        if path not in roots:
            continue
        found = [one for kind in SETS for one in entries(roots[path], kind) if text_of(one, "name") == name]
        if not found:
            known = {text_of(node, "name") for kind in SETS for node in entries(roots[path], kind)}
            workflow.find(entry, f"there is no set '{name}' in {source or 'this file'}{_near(name, known)}")
        chosen += found
    return chosen


def _check_names(workflow: Workflow, roots: dict[Path, Any]) -> None:
    """Find steps, sets and variables that are used and do not exist."""
    known: dict[str, set[str]] = {}  # parameters by the steps that have them
    for step in entries(workflow.root, "step"):
        name, used = text_of(step, "name"), _used_sets(workflow, roots, step)
        known[name] = {text_of(entry, "name") for node in used for entry in entries(node, "parameter")}
        for parent in (word.strip() for word in text_of(step, "depend").split(",") if word.strip()):
            if parent not in known:
                workflow.find(step, f"step '{name}' depends on '{parent}', which is no step before it")
            known[name] |= known.get(parent, set())
        texts = [(entry, text_of(entry)) for entry in entries(step, "do")]
        for node in used:
            texts += [(entry, text_of(entry)) for entry in entries(node, "parameter")]
            texts += [(entry, text_of(entry, "dest")) for entry in entries(node, "sub")]
        for entry, text in texts:
            for variable in (found[1] or found[2] for found in SHELL.finditer(text)):
                if variable not in known[name] and not variable.startswith("jube_") and not variable.isdigit():
                    hint = _near(variable, known[name], "$")
                    workflow.find(entry, f"there is no parameter '{variable}' in step '{name}'{hint}")


def _near(name: str, known: set[str], sign: str = "") -> str:
    return f": {near(f'{sign}{name}', (f'{sign}{one}' for one in sorted(known)))}"
