"""YAML files that people write: each value is a text as written, so that its type decides what it means.

A reader of YAML 1.1 takes 010 for 8, 1:30 for 90 and NO for false. Every mistake in a file is one sentence.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any


class YamlError(Exception):
    """A file is not YAML that can be used: one sentence with the reason."""

    def __init__(self, reason: str, line: int = 0) -> None:
        """Keep the reason, and the line if one is known."""
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


class Plain(str):
    """A text without quotes, which may be a number or a truth value."""


def read_yaml(path: Path, as_nodes: bool = False) -> Any:
    """Return the content of a file; None if it is empty, and for a value that is left out or null.

    as_nodes: the content as nodes of PyYAML, which have line numbers. Raises YamlError if the file cannot be read, is
    not UTF-8, is not valid YAML, or has a key twice.
    """
    import yaml

    try:
        with path.open(encoding="utf-8-sig") as file:
            loader = _loader()(file)
            root = loader.get_single_node()
        if root is None:
            return None
        _refuse_twice(root)
        return root if as_nodes else loader.construct_document(root)
    except UnicodeDecodeError as error:
        raise YamlError("it is not in UTF-8: store it in that encoding") from error
    except RecursionError as error:
        raise YamlError("a value in it contains itself") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise YamlError(str(error.problem or error.context), line) from error
    except OSError as error:
        raise YamlError(error.strerror or str(error)) from error
    except (ValueError, yaml.YAMLError) as error:
        raise YamlError(" ".join(str(error).split())) from error


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without its parser in C
    # A key << takes in another block. ~ stays a text, as it may be a folder.
    scalars = {"null": "(null|Null|NULL|)$", "merge": "<<$"}
    patterns = [(f"tag:yaml.org,2002:{kind}", re.compile(text)) for kind, text in scalars.items()]
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": {None: patterns}})
    loader.add_constructor("tag:yaml.org,2002:str", lambda _, node: node.value if node.style else Plain(node.value))
    return loader


def _refuse_twice(node: Any) -> None:
    """Raise YamlError for a key that occurs twice: YAML's readers silently use the last one."""
    first: dict[Any, int] = {}
    for child in node.value if node.id != "scalar" else ():
        key, value = child if node.id == "mapping" else (None, child)
        if key is not None:
            line = key.start_mark.line + 1
            if str(key.value) in first:
                raise YamlError(f"'{key.value}' is written twice, first in line {first[str(key.value)]}", line)
            first[str(key.value)] = line
        _refuse_twice(value)


def entries(node: Any, key: str) -> list[Any]:
    """Return the nodes that a mapping has under a key, as a list."""
    pairs = node.value if node.id == "mapping" else []
    value = next((value for name, value in pairs if name.value == key), None)
    if value is None:
        return []
    return list(value.value) if value.id == "sequence" else [value]


def text_of(node: Any, key: str = "_") -> str:
    """Return the text that a mapping has under a key, or the text itself."""
    if node.id == "scalar":
        return str(node.value) if key == "_" else ""
    return next((str(entry.value) for entry in entries(node, key) if entry.id == "scalar"), "")
