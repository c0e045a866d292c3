"""YAML files that people write, as dataclasses: types, `Annotated` limits and Literals say what is allowed.

Each mistake raises RecordError with a sentence: the file and place, what was found, what is allowed. A dataclass may
have a method `check(where)`, which raises RecordError for values that do not go together.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import date
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from jpwr.messages import meant, near
from record.errors import RecordError
from record.names import odd_character
from results.files.json_schema import LISTS, MAPPINGS, Allowed, bare, keys_of
from results.files.yaml_files import PerhapsThousands, Quoted, YamlError, read_yaml

LARGEST = 1e30  # of numbers
FEW = 10  # keys that a sentence names
NUMBER = re.compile(r"-?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)
WORDS = "patternErrorMessage"  # keyword of editors: what a text must be, in words
NAME = "name"  # format of texts that must look as no other one does

NotNegative = Annotated[float, Allowed(minimum=0)]
Above0 = Annotated[float, Allowed(exclusiveMinimum=0)]
From0 = Annotated[int, Allowed(minimum=0)]
From1 = Annotated[int, Allowed(minimum=1)]


def like(pattern: str, words: str) -> Allowed:
    """Return the limits of texts that a whole pattern matches, with what they must be, in words."""
    return Allowed({"pattern": f"^({pattern})$", WORDS: words})


Name = Annotated[str, Allowed(format=NAME)]
Text = Annotated[str, Allowed({"pattern": r"\S", WORDS: "a text"})]


def no_keys() -> Any:
    """Return the field of a mapping that may be left out."""
    return field(default_factory=dict)


def read_file(kind: Any, path: Path, what: str, as_text: bool = False, **given: Any) -> Any:
    """Return the content of a file as a dataclass or a mapping; an empty file has no keys.

    what: content in words. as_text: a text needs no quotes. given: fields that the file does not have.
    """
    content = read_mapping(path, what, as_text)
    return value_as(kind, content, str(path), what) if get_origin(kind) else filled(kind, content, str(path), **given)


def read_mapping(path: Path, what: str, as_text: bool = False) -> dict[str, Any]:
    """Return the content of a file; raises RecordError unless it is a YAML mapping."""
    try:
        content = read_yaml(path, as_text)
    except YamlError as error:
        raise RecordError(f"{path} cannot be read as {what}: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise RecordError(f"{path} is not a file of {what}: it holds {reprlib.repr(content)}")
    return content or {}


def filled(kind: Any, values: Any, where: str, **given: Any) -> Any:
    """Return a dataclass with the values of a mapping; `given` are those that it does not have."""
    made = kind(**stated(kind, values, where), **given)
    if hasattr(made, "check"):
        made.check(where)
    return made


def stated(kind: Any, values: Any, where: str) -> dict[str, Any]:
    """Return the values of a mapping by the field of a dataclass."""
    keys = keys_of(kind)
    if not isinstance(values, Mapping):
        raise RecordError(f"{where}: {reprlib.repr(values)} is not a mapping with the keys {', '.join([*keys][:FEW])}")
    for name in values:
        check_key(name, keys, where)
    values = {name: value for name, value in values.items() if value is not None or _is_scalar(keys[name].kind)}
    found = {keys[name].field.name: value_as(keys[name].kind, value, where, name) for name, value in values.items()}
    if missing := [name for name, key in keys.items() if key.is_required and name not in values]:
        _refuse_empty(keys[missing[0]].kind, where, missing[0])
        raise RecordError(f"{where} lacks {' and '.join(map(repr, missing))}")
    return found


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
    if hasattr(origin, "__dataclass_fields__"):
        return filled(inner, found, f"{where}, {name}")
    one = limits.get("title") or name.removesuffix("s")  # of the items
    try:
        if not found and limits.keys() & {"minItems", "minProperties"}:
            raise ValueError
        if origin in LISTS and isinstance(found, LISTS):
            names = (name if _is_scalar(items[0]) else f"{one} {number}" for number in count(1))
            return tuple(value_as(items[0], item, where, its) for item, its in zip(found, names, strict=False))
        if origin in MAPPINGS and isinstance(found, Mapping):
            for key in found:
                _refuse_odd(str(key), f"{where}, {name}")
            return {str(key): _item(items, key, value, where, name, one) for key, value in found.items()}
        if origin in (*LISTS, *MAPPINGS):
            raise ValueError
        if limits.get("format") == NAME and isinstance(found, str):
            _refuse_odd(found, f"{where}, {name}")
        if (
            isinstance(found, PerhapsThousands)
            and limits.get("maximum", LARGEST) >= 1000
            and str not in (inner, *items)
        ):
            refuse_thousands(found, f"{where}: {name}")
        return scalar(kind, found)
    except ValueError:
        _refuse_empty(kind, where, name)
        hint = meant(str(found), map(str, _choices(inner, limits))) or _single(kind, found)
        wrong = f"{where}: {name} is {reprlib.repr(found)}, but must be {in_words(kind)}"
        raise RecordError(": ".join(filter(None, [wrong, hint]))) from None


def _single(kind: Any, found: Any) -> str:
    """Return a question with the single value that a list may stand for: its items in one text, or one of them."""
    is_plain = isinstance(found, LISTS) and all(isinstance(item, str | int | float) for item in found)
    items = [str(item) for item in found] if is_plain else []
    for values in ([" ".join(items)], items):
        if fitting := [value for value in values if value and _fits(kind, value)]:
            return f"did you mean {' or '.join(map(repr, fitting))}?"
    return ""


def _fits(kind: Any, text: str) -> bool:
    with suppress(ValueError):
        scalar(kind, text)
        return True
    return False


def refuse_thousands(found: Any, where: str) -> None:
    """Raise RecordError for a number with three decimals, which may be meant as thousands."""
    if isinstance(found, PerhapsThousands):
        raise RecordError(
            f"{where} is {found:.3f}, where the point may separate thousands or decimals: "
            f"write {found * 1000:.0f} or {found:.4f}"
        )


def _refuse_odd(name: str, where: str) -> None:
    if odd := odd_character(name):
        raise RecordError(f"{where}: {name!r} has {odd}: names must not look like others, write it in plain letters")


def _item(kinds: tuple[Any, ...], key: Any, value: Any, where: str, name: str, one: str) -> Any:
    """Return a value of a mapping; that of a dataclass may have its key as `name`."""
    if get_origin(kinds[0]) is Literal:
        check_key(key, get_args(kinds[0]), f"{where}, {name}")
    if not hasattr(kinds[1], "__dataclass_fields__"):
        return value_as(kinds[1], value, f"{where}, {name}", str(key))
    given = {"name": str(key)} if "name" in getattr(kinds[1], "ADDED", ()) else {}
    return filled(kinds[1], value, f"{where}, {one} {key}", **given)


def _is_scalar(kind: Any) -> bool:
    inner, _ = bare(kind)
    origin = get_origin(inner) or inner
    return origin not in (*LISTS, *MAPPINGS) and not hasattr(origin, "__dataclass_fields__")


def _refuse_empty(kind: Any, where: str, name: str) -> None:
    """Raise RecordError with the example of a key that must not be missing or empty, if it has one."""
    for example in bare(kind)[1].get("examples", ()):
        text = str(example).replace("'", "")
        raise RecordError(f"{where} has no {name}: write '{name}: {text}'")


def scalar(kind: Any, found: Any) -> Any:
    """Return a text, number or truth value; raises ValueError if the type does not allow it."""
    inner, limits = bare(kind)
    if inner is Any:
        return found
    kinds = get_args(inner) or (inner,)
    if choices := _choices(inner, limits):
        is_good = found in choices
    elif isinstance(found, bool):
        is_good = bool in kinds
    elif isinstance(found, str) and str in kinds:
        is_good = re.search(limits.get("pattern", ""), found) is not None and len(found) >= limits.get("minLength", 0)
        if is_good and limits.get("format") == "date":
            date.fromisoformat(found)
    else:
        found = _number(found)
        is_good = (float in kinds or (int in kinds and isinstance(found, int))) and _is_within(found, limits)
    if not is_good:
        raise ValueError
    return found


def _number(found: Any) -> int | float:
    """Return a number, also of its text; raises ValueError for other values."""
    if isinstance(found, str) and not isinstance(found, Quoted) and NUMBER.fullmatch(found):
        return int(found) if found.removeprefix("-").isdigit() else float(found)
    if not isinstance(found, int | float):
        raise ValueError
    return found


def _is_within(found: float, limits: Mapping[str, Any]) -> bool:
    least, most = limits.get("minimum", -LARGEST), limits.get("maximum", LARGEST)
    return least <= found <= most and found < LARGEST and found > limits.get("exclusiveMinimum", -LARGEST)


def _choices(inner: Any, limits: Mapping[str, Any]) -> tuple[Any, ...]:
    return get_args(inner) if get_origin(inner) is Literal else tuple(limits.get("enum", ()))


def in_words(kind: Any) -> str:
    """Return the values that a type allows, in words."""
    inner, limits = bare(kind)
    if WORDS in limits:
        return str(limits[WORDS])
    if limits.get("format") == "date":
        return "such as 2026-11-02"
    if choices := _choices(inner, limits):
        choices = tuple(filter(None, choices))  # an empty text stands for no choice
        return " or ".join(choices) if len(choices) == 2 else f"one of {', '.join(choices)}"
    if get_origin(inner) in LISTS:
        return "a list of texts" if bare(get_args(inner)[0])[0] is str else "a list"
    if get_origin(inner) in MAPPINGS:
        return "keys with their values"
    names = {str: "a text", bool: "true or false"}
    return " or ".join(names.get(one) or _range(one, limits) for one in get_args(inner) or (inner,))


def _range(kind: Any, limits: Mapping[str, Any]) -> str:
    noun, above = "a whole number" if kind is int else "a number", limits.get("exclusiveMinimum")
    if above is not None:
        return f"{noun} above {above:g}" + (f" and at most {limits['maximum']:g}" if "maximum" in limits else "")
    end = f"to {limits['maximum']:g}" if "maximum" in limits else "on" if kind is int else f"to below {LARGEST:g}"
    return f"{noun} from {limits.get('minimum', -LARGEST):g} {end}"
