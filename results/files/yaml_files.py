"""YAML files that people write, read by the rules of YAML 1.2 so that every mistake in one is a sentence.

PyYAML follows YAML 1.1, where 010 is 8, 1:30 is 90, NO is false, and 2e4 is a text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

# YAML 1.2.2, section 10.3.2, core schema; a key << takes in another block, as in YAML 1.1.
SCALARS = {
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "merge": r"<<",
}
AS_TEXT = {"null": r"null|Null|NULL|"}  # ~ may be a folder
THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}\.[0-9]{3}")  # 80.000: in many countries eighty thousand
DEEPEST = 50  # levels of lists and blocks: PyYAML's parser in C crashes at some thousand


class YamlError(Exception):
    """A file is not YAML that can be used: one sentence with the reason."""

    def __init__(self, reason: str, line: int = 0) -> None:
        """Keep the reason, and the line if one is known."""
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


class Quoted(str):
    """A text in quotes that could be a number without them."""


class PerhapsThousands(float):
    """A number with three decimals, such as 80.000."""


def read_yaml(path: Path, as_text: bool = False) -> Any:
    """Return the content of a file; None if it is empty.

    as_text: keep each value as written, so that 0123 and no stay texts; null is None.
    Raises YamlError if the file cannot be read, is not UTF-8, is not valid YAML, or has a key twice.
    """
    return _read(path, as_text, lambda loader, root: loader.construct_document(root))


def read_nodes(path: Path) -> Any:
    """Return the content as nodes, which have line numbers; raises YamlError as `read_yaml`."""
    return _read(path, False, lambda _, root: root)


def _read(path: Path, as_text: bool, finish: Callable[[Any, Any], Any]) -> Any:
    import yaml

    kind = _loader(as_text)
    try:
        text = path.read_text(encoding="utf-8-sig")
        levels = 0
        for event in yaml.parse(text, Loader=kind):
            levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if levels > DEEPEST:
                raise YamlError(f"its values are nested in more than {DEEPEST} levels")
        stream = io.StringIO(text)
        stream.name = str(path)  # type: ignore[attr-defined]  # of the file in the marks of nodes
        loader = kind(stream)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            _refuse_twice(root)
            return finish(loader, root)
        finally:
            loader.dispose()
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
def _loader(as_text: bool) -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without its parser in C
    scalars = AS_TEXT if as_text else SCALARS
    patterns = [(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{text})$")) for kind, text in scalars.items()]
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": {None: patterns}})
    loader.add_constructor("tag:yaml.org,2002:int", _whole_number)
    if not as_text:
        loader.add_constructor("tag:yaml.org,2002:float", _number)
        loader.add_constructor("tag:yaml.org,2002:str", _text)
        represent: Any = yaml.SafeDumper  # so that what was read can be written
        represent.add_representer(Quoted, represent.represent_str)
        represent.add_representer(PerhapsThousands, represent.represent_float)
    return loader


def _whole_number(_: Any, node: Any) -> int:
    return int(node.value, 0 if node.value[1:2] in ("o", "x") else 10)


def _number(loader: Any, node: Any) -> float:
    found: float = loader.construct_yaml_float(node)
    return PerhapsThousands(found) if THOUSANDS.fullmatch(node.value) else found


def _text(loader: Any, node: Any) -> str:
    is_like_a_number = re.fullmatch(f"{SCALARS['int']}|{SCALARS['float']}", node.value)
    return Quoted(node.value) if is_like_a_number else str(loader.construct_yaml_str(node))


def _refuse_twice(node: Any) -> None:
    """Raise YamlError for a key that occurs twice: YAML's readers silently use the last one."""
    if node.id == "sequence":
        for item in node.value:
            _refuse_twice(item)
    elif node.id == "mapping":
        first: dict[str, int] = {}
        for key, value in node.value:
            if key.id == "scalar":
                line = key.start_mark.line + 1
                if key.value in first:
                    raise YamlError(f"'{key.value}' is written twice, first in line {first[key.value]}", line)
                first[key.value] = line
            _refuse_twice(value)
