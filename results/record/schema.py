"""The JSON schema of a record, made of the model.

`python -m results.record > results/record/record.schema.json` stores it for programs outside of the suite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from results.record.model import SCHEMA_VERSION, Json, Record

TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 7) of a record."""
    definitions: dict[str, Any] = {}
    title = f"The record of one run, version {SCHEMA_VERSION}"
    record = _object_schema(Record, definitions)
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **record, "definitions": definitions}


def violation(record: Json) -> str:
    """Return how a record breaks the schema; empty if it does not."""
    validate, error_type = _validator()
    try:
        validate({key: _ends(value) for key, value in record.items()})
    except error_type as error:
        return str(error)
    return ""


def _ends(value: Any) -> Any:
    """Return the smallest and the largest of a list of numbers, as its other ones break no rule that these keep."""
    is_long = isinstance(value, list) and len(value) > 2 and set(map(type, value)) <= {int, float}
    return [min(value), max(value)] if is_long else value


@cache
def _validator() -> tuple[Callable[[Json], Any], type[Exception]]:
    import fastjsonschema

    return fastjsonschema.compile(schema(), use_default=False), fastjsonschema.JsonSchemaValueException


def _object_schema(part: type, definitions: dict[str, Any]) -> dict[str, Any]:
    types = get_type_hints(part, include_extras=True)
    stored = [one for one in fields(part) if one.name not in getattr(part, "ADDED", ())]
    names = {one.name: one.name.rstrip("_") for one in stored}
    needed = [names[one.name] for one in stored if one.default is MISSING and one.default_factory is MISSING]
    return {
        "type": "object",
        "description": part.__doc__,
        **({"required": needed} if needed else {}),
        "properties": {key: _value_schema(types[name], definitions) for name, key in names.items()},
        **getattr(part, "keywords", {}),
    }


def _value_schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value; that of a part of the record refers to its definition."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        name = kind.__name__
        if name not in definitions:
            definitions[name] = {}  # keeps its place before the definitions inside it
            definitions[name] = _object_schema(kind, definitions)
        return {"$ref": f"#/definitions/{name}"}
    if origin is Annotated:
        part = _value_schema(arguments[0], definitions)
        for extra in kind.__metadata__:
            part |= {"description": extra} if isinstance(extra, str) else extra
        return part
    if origin is Literal:
        return {"enum": list(arguments)}
    if type(None) in arguments:
        part = _value_schema(arguments[0], definitions)
        return part if "$ref" in part else part | {"type": [part["type"], "null"]}
    inner = _value_schema(arguments[-1], definitions) if arguments else {}
    extra = {list: "items", dict: "additionalProperties"}.get(origin)
    return ({"type": TYPES[origin or kind]} if kind is not Any else {}) | ({extra: inner} if extra and inner else {})
