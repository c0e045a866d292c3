"""YAML files that people write, read so that every mistake in one is a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

DEEPEST = 50  # levels of lists and blocks: PyYAML's parser in C crashes at some thousand


class YamlError(Exception):
    """Why a file is no YAML that can be used."""


def read_yaml(path: Path, as_text: bool = False) -> Any:
    """What a file holds, None where it is empty; as_text: each value as it is written, so that 0123 and no stay that.

    Raises YamlError when it cannot be read, is not in UTF-8, is no YAML, or has a key twice.
    """
    return _read(path, as_text, lambda loader, root: loader.construct_document(root))


def read_nodes(path: Path) -> Any:
    """The same as nodes, which know their lines; raises YamlError, too."""
    return _read(path, False, lambda _, root: root)


def _read(path: Path, as_text: bool, finish: Callable[[Any, Any], Any]) -> Any:
    import yaml

    name = "BaseLoader" if as_text else "SafeLoader"
    kind = getattr(yaml, f"C{name}", None) or getattr(yaml, name)  # PyYAML can be built without its parser in C
    try:
        text = path.read_text(encoding="utf-8-sig")
        levels = 0
        for event in yaml.parse(text, Loader=kind):
            levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if levels > DEEPEST:
                raise YamlError(f"its values are nested in more than {DEEPEST} levels")
        loader = kind(text)
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
        raise YamlError("a value in it holds itself") from error
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise YamlError(f"{where}{error.problem or error.context}") from error
    except OSError as error:
        raise YamlError(error.strerror or str(error)) from error
    except (ValueError, yaml.YAMLError) as error:
        raise YamlError(" ".join(str(error).split())) from error


def _refuse_twice(node: Any) -> None:
    """A key that is there twice: YAML's readers take the last one in silence."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_twice(item)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                if key.value in first:
                    raise YamlError(f"line {line}: '{key.value}' is written twice, first in line {first[key.value]}")
                first[key.value] = line
            _refuse_twice(value)
