"""Files that people write, as dataclasses: types, `Annotated` limits and Literals say what is allowed.

In Annotated, a text is the description, and a dictionary has limits, under keywords of JSON schema. A dataclass may
have in `ADDED` the names of fields that no file has, and a method `check(where)`, which raises RecordError for values
that do not go together. Each mistake is a sentence: the file and place, what was found, what is allowed.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from datetime import date
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from jpwr.messages import meant, near
from record.files import RecordError, odd_character
from results.files.yaml_files import Quoted, YamlError, read_yaml

LARGEST = 1e30  # of numbers
FEW = 10  # keys that a sentence names
NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)
THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}\.[0-9]{3}")  # 80.000: in many countries eighty thousand
TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
MAPPINGS = (dict, Mapping)
WORDS = "patternErrorMessage"  # what a text must be, in words
OPTIONAL = "isOptional"  # a value may be None
NAME = "name"  # format of texts that must look as no other one does
BOUNDS = {"exclusiveMinimum": "above {:g}", "minimum": "from {:g} on", "maximum": "and at most {:g}"}


class Allowed(dict[str, Any]):
    """Limits of a value; with a hash, which a union of types needs."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


UNLIMITED = Allowed(minimum=-LARGEST, exclusiveMinimum=-LARGEST, maximum=LARGEST, minItems=0, minProperties=0)
UNLIMITED |= {"pattern": r"[\s\S]*", "minLength": 0, "format": "", "enum": (), "title": "", WORDS: "", OPTIONAL: False}


class PerhapsThousands(float):
    """A number with three decimals, such as 80.000."""


def like(pattern: str, words: str) -> Allowed:
    """Return the limits of texts that a whole pattern matches, with what they must be, in words."""
    return Allowed({"pattern": pattern, WORDS: words})


NotNegative = Annotated[float, Allowed(minimum=0)]
Above0 = Annotated[float, Allowed(exclusiveMinimum=0)]
From0 = Annotated[int, Allowed(minimum=0)]
From1 = Annotated[int, Allowed(minimum=1)]
Name = Annotated[str, Allowed(format=NAME)]
Text = Annotated[str, like(r"[\s\S]*\S[\s\S]*", "a text")]


def no_keys() -> Any:
    """Return the field of a mapping that may be left out."""
    return field(default_factory=dict)


@cache
def keys_of(part: Any) -> dict[str, Any]:
    """Return the types of the values of a dataclass's mappings by key; `from_` stands for the key `from`."""
    types = get_type_hints(part, include_extras=True)
    names = [known.name for known in fields(part) if known.name not in getattr(part, "ADDED", ())]
    return {name.rstrip("_"): types[name] for name in names}


@cache
def required_keys(part: Any) -> list[str]:
    """Return the keys of a dataclass's mappings that have no default."""
    required = [known.name.rstrip("_") for known in fields(part) if known.default is known.default_factory is MISSING]
    return [name for name in keys_of(part) if name in required]


def bare(kind: Any) -> tuple[Any, dict[str, Any]]:
    """Return a type without Annotated and None, and its limits; several Literals are one."""
    limits: dict[str, Any] = dict(UNLIMITED)
    while True:
        if get_origin(kind) is Annotated:
            for extra in kind.__metadata__:
                limits |= {} if isinstance(extra, str) else extra
            kind = kind.__origin__
        elif type(None) in (arguments := get_args(kind)):
            limits[OPTIONAL] = True
            kind = reduce(or_, (argument for argument in arguments if argument is not type(None)))
        elif arguments and all(get_origin(argument) is Literal for argument in arguments):
            return Literal[tuple(choice for argument in arguments for choice in get_args(argument))], limits
        else:
            return kind, limits


def scalar_test(kind: Any) -> Callable[[Any], bool]:
    """Return a function that checks a text, a number or a truth value against a type."""
    inner, limits = bare(kind)
    kinds, choices = get_args(inner) or (inner,), _choices(inner, limits)
    least, below, most = limits["minimum"], limits["exclusiveMinimum"], limits["maximum"]
    pattern, shortest, is_date = re.compile(limits["pattern"]), limits["minLength"], limits["format"] == "date"

    def is_allowed(value: Any) -> bool:
        if choices:
            return value in choices
        if isinstance(value, bool):
            return bool in kinds
        if isinstance(value, str):
            if is_date:
                date.fromisoformat(value)
            return str in kinds and len(value) >= shortest and pattern.fullmatch(value) is not None
        is_number = isinstance(value, int | float) and (float in kinds or (int in kinds and isinstance(value, int)))
        return is_number and least <= value <= most and below < value < LARGEST

    return is_allowed


def read_file(kind: Any, path: Path, what: str, **given: Any) -> Any:
    """Return the content of a file as a dataclass or a mapping; an empty file has no keys.

    what: content in words. given: fields that the file does not have.
    """
    content = read_mapping(path, what)
    return value_as(kind, content, str(path), what) if get_origin(kind) else filled(kind, content, str(path), **given)


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """Return the content of a file, in which each value is a text; raises RecordError unless it is a YAML mapping."""
    try:
        content = read_yaml(path)
    except YamlError as error:
        raise RecordError(f"{path} cannot be read as {what}: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise RecordError(f"{path} is not a file of {what}: it holds {reprlib.repr(content)}")
    return content or {}


def filled(kind: Any, values: Any, where: str, /, **given: Any) -> Any:
    """Return a dataclass with the values of a mapping; `given` are those that it does not have."""
    made = kind(**stated(kind, values, where), **given)
    if hasattr(made, "check"):
        made.check(where)
    return made


def stated(kind: Any, values: Any, where: str) -> dict[str, Any]:
    """Return the values of a mapping by the field of a dataclass; a key without a value is one that is left out."""
    keys = keys_of(kind)
    if not isinstance(values, Mapping):
        raise RecordError(f"{where}: {reprlib.repr(values)} is not a mapping with the keys {', '.join([*keys][:FEW])}")
    for name in values:
        check_key(name, keys, where)
    known = {name: value for name, value in values.items() if value is not None}
    if missing := [name for name in required_keys(kind) if name not in known]:
        raise RecordError(f"{where} lacks {' and '.join(map(repr, missing))}")
    return {name: value_as(keys[name], value, where, name) for name, value in known.items()}


def check_key(name: Any, known: Iterable[str], where: str) -> None:
    """Raise RecordError unless a key is known."""
    if name not in known:
        raise RecordError(f"{where} has an unknown key '{name}': {near(str(name), known)}")


def value_as(kind: Any, found: Any, where: str, name: str) -> Any:
    """Return a value as its type has it; raises RecordError if the type does not allow it."""
    inner, limits = bare(kind)
    origin, items = get_origin(inner) or inner, get_args(inner)
    if hasattr(origin, "from_file"):
        return inner.from_file(found, where, name)
    if is_dataclass(origin):
        return filled(inner, found, f"{where}, {name}")
    item_name = limits["title"] or name.removesuffix("s")
    is_empty = not found and (limits["minItems"] or limits["minProperties"])
    if origin is tuple and isinstance(found, list | tuple) and not is_empty:
        return tuple(value_as(items[0], item, where, f"{item_name} {number}") for number, item in enumerate(found, 1))
    if origin in MAPPINGS and isinstance(found, Mapping) and not is_empty:
        return {str(key): _item(items, str(key), item, where, name, item_name) for key, item in found.items()}
    if limits["format"] == NAME and isinstance(found, str):
        _refuse_odd(found, f"{where}, {name}")
    if inner is Any:
        return found
    value, kinds = untyped(found), items or (inner,)
    if not (bool in kinds if isinstance(value, bool) else int in kinds or float in kinds):
        value = found  # a text that looks like a number
    try:
        is_allowed = origin not in (tuple, *MAPPINGS) and scalar_test(kind)(value)
    except ValueError:  # of a day that does not exist
        is_allowed = False
    if not is_allowed:
        hint = meant(str(found), map(str, _choices(inner, limits)))
        wrong = f"{where}: {name} is {reprlib.repr(untyped(found))}, but must be {in_words(kind)}"
        raise RecordError(": ".join(filter(None, [wrong, hint])))
    if limits["maximum"] >= 1000 and str not in items:
        refuse_thousands(value, f"{where}: {name}")
    return str(value) if isinstance(value, Quoted) else value


def _item(kinds: tuple[Any, ...], key: str, value: Any, where: str, name: str, item_name: str) -> Any:
    """Return a value of a mapping; that of a dataclass may have its key as `name`."""
    _refuse_odd(key, f"{where}, {name}")
    if get_origin(kinds[0]) is Literal:
        check_key(key, get_args(kinds[0]), f"{where}, {name}")
    if not is_dataclass(kinds[1]):
        return value_as(kinds[1], value, f"{where}, {name}", key)
    given = {"name": key} if "name" in getattr(kinds[1], "ADDED", ()) else {}
    return filled(kinds[1], value, f"{where}, {item_name} {key}", **given)


def refuse_thousands(value: Any, where: str) -> None:
    """Raise RecordError for a number with three decimals, which may be meant as thousands."""
    if isinstance(value, PerhapsThousands):
        raise RecordError(
            f"{where} is {value:.3f}, where the point may separate thousands or decimals: "
            f"write {value * 1000:.0f} or {value:.4f}"
        )


def _refuse_odd(name: str, where: str) -> None:
    if odd := odd_character(name):
        raise RecordError(f"{where}: {name!r} has {odd}: names must not look like others, write it in plain letters")


def untyped(found: Any) -> Any:
    """Return a value by what its text looks like: without quotes, it may be a number or a truth value."""
    if isinstance(found, dict):
        return {key: untyped(value) for key, value in found.items()}
    if isinstance(found, list):
        return [untyped(value) for value in found]
    if not isinstance(found, str) or isinstance(found, Quoted):
        return found
    if not NUMBER.fullmatch(found):
        return TRUTHS.get(found, found)
    if found.lstrip("+-").isdigit():
        return int(found)
    return PerhapsThousands(found) if THOUSANDS.fullmatch(found) else float(found)


def _choices(inner: Any, limits: Mapping[str, Any]) -> tuple[Any, ...]:
    return get_args(inner) if get_origin(inner) is Literal else tuple(limits["enum"])


def in_words(kind: Any) -> str:
    """Return the values that a type allows, in words."""
    inner, limits = bare(kind)
    if limits[WORDS]:
        return str(limits[WORDS])
    if limits["format"] == "date":
        return "such as 2026-11-02"
    if choices := _choices(inner, limits):
        choices = tuple(filter(None, choices))  # an empty text stands for no choice
        return " or ".join(map(str, choices)) if len(choices) < 3 else f"one of {', '.join(choices)}"
    if (origin := get_origin(inner) or inner) in (list, tuple):
        return "a list" + " that is not empty" * bool(limits["minItems"])
    if origin in MAPPINGS or is_dataclass(origin):
        return "keys with their values"
    if kinds := get_args(inner):
        return " or ".join(in_words(Annotated[kind, limits]) for kind in kinds)
    noun = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}.get(inner, "a value")
    is_number = inner in (int, float)
    bounds = [text.format(limits[key]) for key, text in BOUNDS.items() if is_number and limits[key] != UNLIMITED[key]]
    return " ".join([noun, *bounds])
