"""Check that documents and docstrings stay plain: exits with 1 and names each place that is not.

Usage: language.py [FOLDER]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_WORDS, MOST_COMMAS = 12.3, 0.78  # of a sentence, on average over all documents
DOCUMENTS = ("README.md", "AGENTS.md", "CONTRIBUTING.md", "docs/**/*.md", "ioprof/README.md", "jpwr/README.md")
PACKAGES = ("benchmarks", "caraml", "ioprof", "jpwr", "record", "results")
NOT_FIRST = ("Of", "What", "Who", "Where")
# Words of this project that a reader knows in another sense, or not at all. `apart` in backquotes is a tag.
PRIVATE = re.compile(
    r"\b(told|tells?|says|said|beside|sure|unsure|surer|witness\w*|lasting|(?<!`)apart|held against|not to be had)\b",
    re.IGNORECASE,
)
MOST_PRIVATE = 30
NO_PROSE = re.compile(r"(?s:```.*?```|<!--.*?-->)|^(?:\||#|!\[).*$", re.MULTILINE)


def sentences(text: str) -> list[str]:
    """Return the sentences of a Markdown text, without code, tables and headings."""
    prose = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", NO_PROSE.sub("", text)))
    parts = re.split(r"(?<=[.!?])\s+|\n\s*\n|\n\s*(?:-|\d+\.)\s|:\s*\n", prose)
    return [part for part in parts if len(part.split()) > 2]


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_documented and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def main(root: Path) -> int:
    """Print what is not plain; return the exit code."""
    found = []
    documents = sorted(path for pattern in DOCUMENTS for path in root.glob(pattern))
    prose = [one for path in documents for one in sentences(path.read_text(encoding="utf-8"))]
    for name, average, most in (
        ("words", sum(len(one.split()) for one in prose) / len(prose), MOST_WORDS),
        ("commas", sum(one.count(",") for one in prose) / len(prose), MOST_COMMAS),
    ):
        if average > most:
            found.append(f"documents have {average:.2f} {name} in a sentence on average, at most {most:g} wanted")
    files = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py") if "tests" not in path.parts)
    for path in files:
        for line, text in docstrings(path):
            if text.split()[0] in NOT_FIRST:
                found.append(f"{path.relative_to(root)}:{line}: the docstring begins with '{text.split()[0]}'")
    private = [
        f"{path.relative_to(root)}:{number}: '{word[0]}' is no word of the field"
        for path in [*documents, *files]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (word := PRIVATE.search(line))
    ]
    print(f"language: {len(prose)} sentences, {len(private)} lines with private words, at most {MOST_PRIVATE} wanted")
    if len(private) > MOST_PRIVATE:
        found += private
    print("\n".join(found), file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
