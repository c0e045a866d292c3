"""Nodes of a YAML file, which know their lines."""

from __future__ import annotations

from typing import Any


def value_of(node: Any, key: str) -> Any:
    """Return the node that a mapping has under a key, or None."""
    import yaml

    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def entries(node: Any, key: str) -> list[Any]:
    """Return the nodes that a mapping has under a key, as a list."""
    import yaml

    value = value_of(node, key)
    if value is None:
        return []
    return list(value.value) if isinstance(value, yaml.SequenceNode) else [value]


def text_of(node: Any, key: str = "_") -> str:
    """Return the text that a mapping has under a key, or the text itself."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return str(node.value) if key == "_" else ""
    return next((str(entry.value) for entry in entries(node, key) if isinstance(entry, yaml.ScalarNode)), "")
