"""Values of files by types: YAML files that people write become dataclasses, and records are checked.

In YAML each value is a text as written, so that its type decides what it means: a reader of YAML 1.1 takes 010 for 8,
1:30 for 90 and NO for false.

In Annotated, a text is the description, and `Allowed` limits the values. A dataclass may have in `ADDED` the names of
fields that no file has, where `name` is the key of its block, and a method `check(where)`, which raises RecordError for
values that do not go together. Each mistake is a sentence: the file and place, what was found, what is allowed.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from jpwr.messages import meant, near
from record.files import RecordError, odd_character
from record.part import FROM_0, LARGEST, Allowed, Part

NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)
THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}\.[0-9]{3}")  # 80.000: in many countries eighty thousand
TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
WORDS = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
WORDS |= {list: "a list", tuple: "a list"}
OF_PARTS = "keys with their values"

Reader = Callable[[Any, str, str], Any]  # takes a value, the place of what it is in, and its name there
Kind = tuple[list[type], Allowed, Reader | None]  # types of Python, their limit, and the reader of what has parts


def like(pattern: str, words: str) -> Allowed:
    """Return the limit to texts that a whole pattern matches, with what they must be, in words."""
    return Allowed(words, re.compile(pattern).fullmatch)


def one_of(choices: Iterable[Any]) -> Allowed:
    """Return the limit to some values; an empty text stands for no choice."""
    known = tuple(choices)
    words = [str(choice) for choice in known if choice != ""]
    return Allowed(" or ".join(words) if len(words) < 3 else f"one of {', '.join(words)}", known.__contains__, known)


PLAIN = Allowed("a text in plain letters, as names must not look like others", lambda name: not odd_character(name))
NotNegative = Annotated[float, FROM_0]
Above0 = Annotated[float, Allowed("a number above 0", lambda number: 0 < number < LARGEST)]
From0 = Annotated[int, Allowed("a whole number from 0 on", FROM_0.test)]
From1 = Annotated[int, Allowed("a whole number from 1 on", lambda number: 1 <= number < LARGEST)]
Name = Annotated[str, PLAIN]
Text = Annotated[str, like(r"[\s\S]*\S[\s\S]*", "a text that is not empty")]
Date = Annotated[str, like("[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", "such as 2026-11-02")]
FILLED = Allowed(OF_PARTS, bool)  # a mapping that is not empty


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
def _required_keys(part: Any) -> list[str]:
    """Return the keys of a dataclass's mappings that have no default."""
    required = [known.name.rstrip("_") for known in fields(part) if known.default is known.default_factory is MISSING]
    return [name for name in keys_of(part) if name in required]


def read_file(kind: Any, path: Path, what: str, **given: Any) -> Any:
    """Return the content of a file as a dataclass or a mapping; an empty file has no keys.

    what: content in words. given: fields that the file does not have.
    """
    content = read_mapping(path, what)
    return reader(kind)(content, str(path), what) if get_origin(kind) else filled(kind, content, str(path), **given)


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """Return the content of a file, in which each value is a text; raises RecordError unless it is a YAML mapping."""
    try:
        content = read_yaml(path)
    except YamlError as error:
        raise RecordError(f"{path} cannot be read as {what}: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise RecordError(f"{path} is not a file of {what}: it holds {reprlib.repr(content)}")
    return content or {}


def filled(kind: Any, values: Mapping[str, Any], where: str, /, **given: Any) -> Any:
    """Return a dataclass with the values of a mapping; `given` are those that it does not have."""
    made = kind(**stated(kind, values, where), **given)
    if hasattr(made, "check"):
        made.check(where)
    return made


def stated(kind: Any, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values of a mapping by the field of a dataclass, of a part of a record also those of further keys.

    In a file that people write, a key without a value is one that is left out.
    """
    if not issubclass(kind, Part):
        for name in values:
            check_key(name, keys_of(kind), where)
        values = {name: value for name, value in values.items() if value is not None}
    read = {name: _reader_of(kind, name)(value, where, name) for name, value in values.items()}
    if missing := [name for name in _required_keys(kind) if name not in read]:
        raise RecordError(f"{where} lacks {' and '.join(map(repr, missing))}")
    return read


@lru_cache(maxsize=10_000)  # a record may have any keys
def _reader_of(kind: Any, name: str) -> Reader:
    """Return the reader of a key's value."""
    others = (other for pattern, other in getattr(kind, "OTHERS", {}).items() if re.search(pattern, name))
    return reader(keys_of(kind).get(name) or next(others, Any))


def check_key(name: Any, known: Iterable[str], where: str) -> None:
    """Raise RecordError unless a key is known."""
    if name not in known:
        raise RecordError(f"{where} has an unknown key '{name}': {near(str(name), known)}")


@cache
def reader(kind: Any) -> Reader:
    """Return the function that reads a value of a type; it raises RecordError for what the type does not allow."""
    if kind is Any:
        return lambda found, where, name: found
    kinds = list(_kinds(kind, None))
    of_any = {each for types, *_ in kinds for each in types}
    limits = [limit for _, limit, _ in kinds]
    words = " or ".join(dict.fromkeys(limit.words for limit in limits if limit.words))
    choices = [str(choice) for limit in limits for choice in limit.choices]

    def read(found: Any, where: str, name: str) -> Any:
        value = found
        if isinstance(found, Plain):
            typed = untyped(found)
            value = typed if type(typed) in of_any else str(found)  # a text may look like a number
        for types, limit, read_parts in kinds:
            if type(value) in types and limit.test(value):
                if type(value) is float and isinstance(found, Plain):
                    _refuse_thousands(found, limit, f"{where}: {name}")
                return read_parts(value, where, name) if read_parts else value
        odd = odd_character(found) if isinstance(found, str) else ""
        hint = meant(str(found), choices) or (f"it has {odd}" if odd else "")
        wrong = f"{where}: {name} is {reprlib.repr(untyped(found))}, but must be {words}"
        raise RecordError(f"{wrong}: {hint}" if hint else wrong)

    return read


def _kinds(kind: Any, limit: Allowed | None) -> Iterator[Kind]:
    """Yield the kinds of values of a type; of several limits, the outermost counts."""
    origin, items, read = get_origin(kind) or kind, get_args(kind), None
    if origin is Annotated:
        yield from _kinds(items[0], limit or next((item for item in items[:0:-1] if isinstance(item, Allowed)), None))
        return
    if origin in (Union, UnionType):
        for item in items:
            yield from _kinds(item, limit)
        return
    types, usual = [origin], Allowed(WORDS.get(origin, OF_PARTS), lambda _: True)
    if origin is NoneType:
        usual, limit = usual._replace(words=""), None
    elif origin is Literal:
        types, usual = [*map(type, items)], one_of(items)
    elif origin in (int, float):
        types, usual = [int, origin], Allowed(WORDS[origin], lambda number: -LARGEST < number < LARGEST)
    elif origin in (list, tuple):
        types, read = [list, tuple], partial(_read_items, origin, reader(items[0]))
    elif origin in (dict, Mapping):
        of_keys = Name if (origin, items[0]) == (Mapping, str) else items[0]
        types, read = [dict], partial(_read_entries, reader(of_keys), reader(items[1]))
    elif is_dataclass(origin):
        types, read = [dict], partial(_read_part, origin)
    yield types, limit or usual, read


def _read_items(origin: Any, read: Reader, found: Any, where: str, name: str) -> Any:
    if len(found) > 2 and set(map(type, found)) in ({int}, {float}):
        for number in (min(found), max(found)):  # other numbers break no rule that these keep
            read(number, where, f"a value of {name}")
        return found
    return origin(read(item, where, f"{name} {number}") for number, item in enumerate(found, 1))


def _read_entries(read_key: Reader, read: Reader, found: Any, where: str, name: str) -> dict[str, Any]:
    place = f"{where}, {name}"
    entries = ((read_key(key, place, "a key"), value) for key, value in found.items())
    return {key: read(value, place, key) for key, value in entries}


def _read_part(kind: Any, found: Any, where: str, name: str) -> Any:
    place = f"{where}, {name}"
    if issubclass(kind, Part):
        return stated(kind, found, place)
    return filled(kind, found, place, **({"name": name} if "name" in getattr(kind, "ADDED", ()) else {}))


def _refuse_thousands(text: str, limit: Allowed, where: str) -> None:
    """Raise RecordError for a number with three decimals if what it is without the point is allowed too."""
    value = float(text)
    if THOUSANDS.fullmatch(text) and limit.test(value * 1000):
        raise RecordError(
            f"{where} is {text}, where the point may separate thousands or decimals: "
            f"write {value * 1000:.0f} or {value:.4f}"
        )


def untyped(found: Any) -> Any:
    """Return a value by what its text looks like: without quotes, it may be a number or a truth value."""
    if isinstance(found, dict):
        return {key: untyped(value) for key, value in found.items()}
    if isinstance(found, list):
        return [untyped(value) for value in found]
    if not isinstance(found, Plain):
        return found
    if not NUMBER.fullmatch(found):
        return TRUTHS.get(found, str(found))
    is_whole = found.lstrip("+-").isdigit() and len(found) < 1000  # int() refuses a few thousand digits
    return int(found) if is_whole else float(found)


class YamlError(Exception):
    """A file is not YAML that can be used: one sentence with the reason."""

    def __init__(self, reason: str, line: int = 0) -> None:
        """Keep the reason, and the line if one is known."""
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


class Plain(str):
    """A text without quotes, which may be a number or a truth value."""


def read_yaml(path: Path, as_nodes: bool = False) -> Any:
    """Return the content of a file; None if it is empty, and for a value that is left out or null.

    as_nodes: the content as nodes of PyYAML, which have line numbers. Raises YamlError if the file cannot be read, is
    not UTF-8, is not valid YAML, or has a key twice.
    """
    import yaml

    try:
        with path.open(encoding="utf-8-sig") as file:
            loader = _loader()(file)
            root = loader.get_single_node()
        if root is None:
            return None
        _refuse_twice(root)
        return root if as_nodes else loader.construct_document(root)
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
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without its parser in C
    # A key << takes in another block. ~ stays a text, as it may be a folder.
    scalars = {"null": "(null|Null|NULL|)$", "merge": "<<$"}
    patterns = [(f"tag:yaml.org,2002:{kind}", re.compile(text)) for kind, text in scalars.items()]
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": {None: patterns}})
    loader.add_constructor("tag:yaml.org,2002:str", lambda _, node: node.value if node.style else Plain(node.value))
    return loader


def _refuse_twice(node: Any) -> None:
    """Raise YamlError for a key that occurs twice: YAML's readers silently use the last one."""
    first: dict[Any, int] = {}
    for child in node.value if node.id != "scalar" else ():
        key, value = child if node.id == "mapping" else (None, child)
        if key is not None:
            line = key.start_mark.line + 1
            if str(key.value) in first:
                raise YamlError(f"'{key.value}' is written twice, first in line {first[str(key.value)]}", line)
            first[str(key.value)] = line
        _refuse_twice(value)


def entries(node: Any, key: str) -> list[Any]:
    """Return the nodes that a mapping has under a key, as a list."""
    pairs = node.value if node.id == "mapping" else []
    value = next((value for name, value in pairs if name.value == key), None)
    if value is None:
        return []
    return list(value.value) if value.id == "sequence" else [value]


def text_of(node: Any, key: str = "_") -> str:
    """Return the text that a mapping has under a key, or the text itself."""
    if node.id == "scalar":
        return str(node.value) if key == "_" else ""
    return next((str(entry.value) for entry in entries(node, key) if entry.id == "scalar"), "")
