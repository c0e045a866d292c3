"""Values that a person wrote into a YAML file, as a dataclass; every mistake is a sentence."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, TypeVar

from results.record.records import LARGEST, RecordError
from results.yaml_files import YamlError, read_yaml

Kind = TypeVar("Kind")


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The blocks of a file; raises RecordError where it holds something else, or is no YAML."""
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
    """A dataclass of texts and of numbers that are not negative; raises RecordError for what it lacks, or cannot be."""
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(values, Mapping):
        raise RecordError(f"{where}: {reprlib.repr(values)} has no values by their names: {', '.join(known)}")
    for name, value in values.items():
        check_key(name, known, where)
        wanted = _wanted(known[name], value)
        if wanted:
            raise RecordError(f"{where}: {name} is {reprlib.repr(value)}, {wanted} is needed")
    needed = [name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING]
    missing = [name for name in needed if name not in values]
    if missing:
        raise RecordError(f"{where} is not complete: {' and '.join(map(repr, missing))} missing")
    return kind(**values)


def check_key(name: Any, known: Mapping[str, Any], where: str) -> None:
    """Raise RecordError for a key that is not one of those."""
    if name not in known:
        near = difflib.get_close_matches(str(name), known, 1)
        guess = f"did you mean {near[0]}?" if near else f"it may have {', '.join(known)}"
        raise RecordError(f"{where} has an unknown key '{name}': {guess}")


def _wanted(field: Field[Any], value: Any) -> str:
    """Describe the values that a field accepts; empty if it accepts this one."""
    kinds = str(field.type).split(" | ")
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST
    if "str" in kinds and isinstance(value, str):
        return ""
    if ("float" in kinds and is_number) or ("int" in kinds and is_number and isinstance(value, int)):
        return ""
    if not {"str", "float", "int"} & set(kinds):  # a part of its own, already read
        return ""
    names = {"str": "a text", "int": "a whole number that is not negative"}
    return " or ".join(names.get(kind, f"a number from 0 to below {LARGEST:g}") for kind in kinds if kind != "None")
