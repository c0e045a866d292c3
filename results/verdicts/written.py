"""Values of a user's YAML file as a dataclass; each mistake raises RecordError with a sentence."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, TypeVar

from jpwr.messages import near
from results.record.records import LARGEST, RecordError
from results.yaml_files import YamlError, read_yaml

Kind = TypeVar("Kind")


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """Return the content of a file; raises RecordError unless it is a YAML mapping."""
    try:
        content = read_yaml(path)
    except YamlError as error:
        raise RecordError(f"{path} cannot be read as {what}: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise RecordError(f"{path} is not a file of {what}: it holds {reprlib.repr(content)}")
    return content


def filled(kind: type[Kind], values: Any, where: str) -> Kind:
    """Return a dataclass filled with texts and non-negative numbers; raises RecordError for a missing or bad value."""
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(values, Mapping):
        raise RecordError(f"{where}: {reprlib.repr(values)} is not a mapping with the keys {', '.join(known)}")
    for name, value in values.items():
        check_key(name, known, where)
        wanted = _wanted(known[name], value)
        if wanted:
            raise RecordError(f"{where}: {name} is {reprlib.repr(value)}, but must be {wanted}")
    needed = [name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING]
    missing = [name for name in needed if name not in values]
    if missing:
        raise RecordError(f"{where} lacks {' and '.join(map(repr, missing))}")
    return kind(**values)


def check_key(name: Any, known: Mapping[str, Any], where: str) -> None:
    """Raise RecordError unless a key is known."""
    if name not in known:
        raise RecordError(f"{where} has an unknown key '{name}': {near(str(name), known)}")


def _wanted(field: Field[Any], value: Any) -> str:
    """Describe the values that a field accepts; empty if it accepts this one."""
    kinds = str(field.type).split(" | ")
    if kinds == ["bool"]:
        return "" if isinstance(value, bool) else "true or false"
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST
    if "str" in kinds and isinstance(value, str):
        return ""
    if ("float" in kinds and is_number) or ("int" in kinds and is_number and isinstance(value, int)):
        return ""
    if not {"str", "float", "int"} & set(kinds):  # a part that is already read
        return ""
    names = {"str": "a text", "int": "a whole number that is not negative"}
    return " or ".join(names.get(kind, f"a number from 0 to below {LARGEST:g}") for kind in kinds if kind != "None")
