"""Find what JUBE silently accepts in a workflow: unknown keys, undefined variables, duplicate names.

Mistakes in the blocks of systems are found, too. The known keys are those that JUBE 2.5.1 and 2.7.1 read and that our
workflows use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from caraml.installation import SYSTEMS
from jpwr.messages import near
from record.files import RecordError
from results.files.systems import read_systems
from results.files.typed_files import YamlError, entries, read_yaml, text_of

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


class Mistake(NamedTuple):
    """Problem in a workflow file, with its line."""

    file: Path
    line: int
    text: str

    @classmethod
    def at(cls, node: Any, text: str) -> Mistake:
        """Return a problem at a node, which can be in another file that the workflow takes a set from."""
        return cls(Path(node.start_mark.name), node.start_mark.line + 1, text)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.text}"


class UnreadableError(Exception):
    """A file cannot be read as a workflow."""

    def __init__(self, file: Path, line: int, text: str) -> None:
        super().__init__(text)
        self.mistake = Mistake(file, line, text)


def lint(file: Path) -> list[Mistake]:
    """Return all problems in a workflow and in the files that it takes sets from."""
    found: set[Mistake] = set(_of_systems(file.parent / "include" / SYSTEMS.name))
    roots: dict[Path, Any] = {}
    to_do = [file]
    for path in to_do:  # grows in the loop
        try:
            roots[path] = _compose(path)
        except UnreadableError as error:
            found.add(error.mistake)
            continue
        found.update(_unknown_keys(roots[path], ""), _twice(roots[path]))
        if path == file:  # a step from another file is checked as one of this file
            for entry, source, _ in (use for step in entries(roots[file], "step") for use in _uses(step)):
                if source and not (file.parent / source).is_file():
                    found.add(Mistake.at(entry, f"there is no file {source}"))
                elif source and file.parent / source not in to_do:
                    to_do.append(file.parent / source)
    if len(roots) == len(to_do):  # the names in an unreadable file are not known
        found.update(_unknown_names(file, roots))
    return sorted(found)


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
        root = read_yaml(file, as_nodes=True)
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


def _unknown_keys(node: Any, place: str) -> Iterator[Mistake]:
    """Yield keys that JUBE would ignore."""
    if node.id == "sequence":
        for item in node.value:
            yield from _unknown_keys(item, place)
    elif node.id == "mapping":
        for key, value in node.value:
            name, known = str(key.value), KEYS[place].split()
            if name not in known:
                hint = _near(name, {*known})
                yield Mistake.at(key, f"JUBE knows no key '{name}' in '{place or 'a workflow'}'{hint}")
            elif value.id != "scalar" and name in KEYS:
                yield from _unknown_keys(value, name)


def _twice(root: Any) -> Iterator[Mistake]:
    """Yield parameters of one set with the same name and tag, of which JUBE would use the last."""
    for node in entries(root, "parameterset"):
        seen: dict[tuple[str, str], int] = {}
        for entry in entries(node, "parameter"):
            key = text_of(entry, "name"), text_of(entry, "tag")
            if key in seen:
                yield Mistake.at(entry, f"parameter '{key[0]}' is written twice, first in line {seen[key]}")
            seen.setdefault(key, entry.start_mark.line + 1)


def _uses(node: Any) -> Iterator[tuple[Any, str, str]]:
    """Yield for each name under `use` its node, the file it is taken from, and the name."""
    for entry in entries(node, "use"):
        for name in text_of(entry).split(","):
            yield entry, text_of(entry, "from"), name.strip()


def _unknown_names(file: Path, roots: dict[Path, Any]) -> Iterator[Mistake]:
    """Yield steps, sets and variables that are used and do not exist."""
    known: dict[str, set[str]] = {}  # parameters by the steps that have them
    for step in entries(roots[file], "step"):
        step_name, used = text_of(step, "name"), list[Any]()
        for entry, source, name in _uses(step):
            if not (root := roots.get(file.parent / source if source else file)):
                continue
            sets = [node for kind in SETS for node in entries(root, kind)]
            of_name = [node for node in sets if text_of(node, "name") == name]
            if not of_name:
                hint = _near(name, {text_of(node, "name") for node in sets})
                yield Mistake.at(entry, f"there is no set '{name}' in {source or 'this file'}{hint}")
            used += of_name
        own = known[step_name] = {text_of(entry, "name") for node in used for entry in entries(node, "parameter")}
        for parent in (word.strip() for word in text_of(step, "depend").split(",") if word.strip()):
            if parent not in known:
                yield Mistake.at(step, f"step '{step_name}' depends on '{parent}', which is no step before it")
            own |= known.get(parent, set())
        texts = [(entry, text_of(entry)) for entry in entries(step, "do")]
        for node in used:
            texts += [(entry, text_of(entry)) for entry in entries(node, "parameter")]
            texts += [(entry, text_of(entry, "dest")) for entry in entries(node, "sub")]
        for entry, text in texts:
            for variable in (found[1] or found[2] for found in SHELL.finditer(text)):
                if variable not in own and not variable.startswith("jube_") and not variable.isdigit():
                    hint = _near(variable, own, "$")
                    yield Mistake.at(entry, f"there is no parameter '{variable}' in step '{step_name}'{hint}")


def _near(name: str, known: set[str], sign: str = "") -> str:
    return f": {near(f'{sign}{name}', (f'{sign}{one}' for one in sorted(known)))}"
