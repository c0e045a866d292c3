"""Names and keywords of other packages that Python code uses, from its syntax tree."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

OURS = ("benchmarks", "caraml", "ioprof", "jpwr", "record", "results")
# Some of our functions take a vendor's module as an argument, and call its functions by their names as text.
VENDORS = {
    "pynvml": re.compile(r"(?:c_)?nvml(?!Return$)[A-Z]\w*|NVML\w+"),  # nvmlReturn is a field of a structure
    "amdsmi": re.compile(r"amdsmi_\w+|AmdSmi\w+"),
    "rocm_smi": re.compile(r"rsmi_\w+"),
}


class Use(NamedTuple):
    """A dotted name that code reaches through an import, and the keywords with which it is called."""

    name: str
    keywords: frozenset[str]
    place: str


def our_uses(repository: Path) -> list[Use]:
    """Return what our code uses, tests left out."""
    files = [file.relative_to(repository) for top in OURS for file in sorted((repository / top).rglob("*.py"))]
    mine = (file for file in files if "tests" not in file.parts)
    return [use for file in mine for use in uses_of((repository / file).read_text(), str(file))]


def uses_of(text: str, file: str) -> list[Use]:
    """Return what the code of a file uses of packages that are neither ours nor in the standard library."""
    tree = ast.parse(text)
    aliases = dict(_imported(tree))
    found: list[Use] = []

    def add(name: str | None, keywords: frozenset[str], node: ast.AST) -> None:
        if name and name.partition(".")[0] not in {*OURS, *sys.stdlib_module_names}:
            found.append(Use(name, keywords, f"{file}:{getattr(node, 'lineno', 0)}"))

    # What code looks for before it uses it may be missing.
    asked = {
        f"{_dotted(node.args[0], aliases)}.{getattr(node.args[1], 'value', '')}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr"
    }
    inner: set[int] = set()  # parts of a longer name, or of a call, which was seen before: `walk` takes parents first
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for _, name in _imported(node):
                add(name, frozenset(), node)
        elif isinstance(node, ast.Call):
            called, words = node.func, frozenset(word.arg for word in node.keywords if word.arg)
            if _dotted(called, aliases) == "functools.partial" and node.args:
                called = node.args[0]
            add(_dotted(called, aliases), words, node)
            inner.add(id(called))
        elif isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            add(_dotted(node, aliases), frozenset(), node)
        elif isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}  # the rest of the name is not known
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            add(_of_vendor(node.value), frozenset(), node)
        if isinstance(node, ast.Attribute):
            inner.add(id(node.value))
    return [use for use in found if use.name not in asked]


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that an import binds, with what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.asname or one.name.partition(".")[0], one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def _dotted(node: ast.AST, aliases: Mapping[str, str]) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in aliases:
        return ".".join([aliases[node.id], *parts])
    return _of_vendor(parts[-1]) if parts else None


def _of_vendor(word: str) -> str | None:
    return next((f"{package}.{word}" for package, names in VENDORS.items() if names.fullmatch(word)), None)
