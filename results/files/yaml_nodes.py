"""Nodes of a YAML file: they have line numbers, and show what JUBE reads otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any


def value_of(node: Any, key: str) -> Any:
    """Return the node that a mapping has under a key, or None."""
    pairs = node.value if node is not None and node.id == "mapping" else []
    return next((value for name, value in pairs if name.value == key), None)


def entries(node: Any, key: str) -> list[Any]:
    """Return the nodes that a mapping has under a key, as a list."""
    value = value_of(node, key)
    if value is None:
        return []
    return list(value.value) if value.id == "sequence" else [value]


def text_of(node: Any, key: str = "_") -> str:
    """Return the text that a mapping has under a key, or the text itself."""
    if node.id == "scalar":
        return str(node.value) if key == "_" else ""
    return next((str(entry.value) for entry in entries(node, key) if entry.id == "scalar"), "")


def read_otherwise(node: Any) -> Iterator[tuple[Any, str]]:
    """Yield each node that JUBE, which reads YAML 1.1, takes for another number or text, and what to do."""
    if node.id == "scalar":
        if not node.style and (value := _as_jube_reads(node.value)) not in (None, node.value):
            yield node, f"has '{node.value}', which JUBE reads as {value}, after YAML 1.1: put it in quotes"
    else:
        for child in node.value:
            for one in child if isinstance(child, tuple) else (child,):
                yield from read_otherwise(one)


@cache
def _as_jube_reads(text: str) -> str | None:
    """Return a value as JUBE reads it, as a text; the written text if both are the same number or truth value."""
    import yaml

    loader = yaml.SafeLoader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))
    try:
        value = loader.construct_object(yaml.ScalarNode(tag, text))
        is_same = text.lower() == str(value).lower() or (not isinstance(value, bool) and float(text) == float(value))
    except yaml.YAMLError:  # <<, which is not a value
        return None
    except (TypeError, ValueError):
        is_same = False
    return text if is_same or value is None else str(value)
