"""JSON schema (draft 7) of a dataclass: its types, `Annotated` limits and Literals say what is allowed.

In Annotated, a text is the description, and a dictionary has keywords of JSON schema. A class may have further ones in
`keywords`, and in `ADDED` the names of fields that no file has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

DRAFT = "http://json-schema.org/draft-07/schema#"
TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
LISTS, MAPPINGS = (list, tuple), (dict, Mapping)
Schema = dict[str, Any]


class Allowed(dict[str, Any]):
    """Keywords of JSON schema; with a hash, which a union of types needs."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


class Key(NamedTuple):
    """Key of an object: the field, the type of its value, and whether it has no default."""

    field: Field[Any]
    kind: Any
    is_required: bool


@cache
def keys_of(part: Any) -> dict[str, Key]:
    """Return the keys of a dataclass's objects; `from_` stands for the key `from`."""
    types, given = get_type_hints(part, include_extras=True), getattr(part, "ADDED", ())
    return {
        one.name.rstrip("_"): Key(one, types[one.name], one.default is one.default_factory is MISSING)
        for one in fields(part)
        if one.name not in given
    }


def bare(kind: Any) -> tuple[Any, Schema]:
    """Return a type without Annotated and None, and the keywords of Annotated; several Literals are one."""
    keywords: Schema = {}
    while True:
        if get_origin(kind) is Annotated:
            for extra in kind.__metadata__:
                keywords |= {"description": extra} if isinstance(extra, str) else extra
            kind = kind.__origin__
        elif type(None) in (arguments := get_args(kind)):
            kind = arguments[0] if len(arguments) == 2 else arguments[0] | arguments[1]
        elif arguments and all(get_origin(one) is Literal for one in arguments):
            return Literal[tuple(choice for one in arguments for choice in get_args(one))], keywords
        else:
            return kind, keywords


def schema_of(kind: Any, title: str) -> Schema:
    """Return the schema of a dataclass, or of another type of a whole file; it allows further keys."""
    definitions: Schema = {}
    top = _object_schema(kind, definitions) if is_dataclass(kind) else value_schema(kind, definitions)
    return {"$schema": DRAFT, "title": title, **top, "definitions": definitions}


def _object_schema(part: Any, definitions: Schema) -> Schema:
    keys = keys_of(part)
    needed = [name for name, key in keys.items() if key.is_required]
    return {
        "type": "object",
        "description": part.__doc__.partition("\n")[0],
        **({"required": needed} if needed else {}),
        "properties": {name: value_schema(key.kind, definitions) for name, key in keys.items()},
        **getattr(part, "keywords", {}),
    }


def value_schema(kind: Any, definitions: Schema) -> Schema:
    """Return the schema of a value; that of a dataclass refers to its definition."""
    inner, keywords = bare(kind)
    origin, arguments = get_origin(inner), get_args(inner)
    if is_dataclass(inner):
        name = inner.__name__  # type: ignore[union-attr]
        if name not in definitions:
            definitions[name] = {}  # keeps its place before the definitions inside it
            definitions[name] = _object_schema(inner, definitions)
        return {"$ref": f"#/definitions/{name}"} | keywords
    if origin is Literal:
        return {"enum": list(arguments)} | keywords
    if origin in LISTS or inner is list:
        part: Schema = {"type": "array"} | _inside("items", arguments[:1], definitions)
    elif origin in MAPPINGS or inner is dict:
        part = {"type": "object"} | _inside("additionalProperties", arguments[1:], definitions)
    elif hasattr(inner, "keywords"):
        part = dict(inner.keywords)
    else:
        names = [TYPES[one] for one in arguments or (inner,) if one in TYPES]
        part = {"type": names if len(names) > 1 else names[0]} if names else {}
    if type(None) in get_args(kind if get_origin(kind) is not Annotated else kind.__origin__):
        part["type"] = [*([part["type"]] if isinstance(part["type"], str) else part["type"]), "null"]
    return part | keywords


def _inside(keyword: str, kinds: tuple[Any, ...], definitions: Schema) -> Schema:
    inner = value_schema(kinds[0], definitions) if kinds else {}
    return {keyword: inner} if inner else {}
