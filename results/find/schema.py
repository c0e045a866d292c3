"""Check the values of a record by the types of the model."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import lru_cache, partial
from typing import Any, get_args, get_origin

from record.model import Json, Record
from results.files.typed_files import OPTIONAL, bare, in_words, keys_of, required_keys, scalar_test

Check = Callable[[Any], str]  # returns the place of what a type does not allow, and why; empty if all is allowed
OF_GOOD_RUN = ("metrics", "windows")
OF_ITS_LAYOUT = ("num_devices", "num_nodes", "global_batch_size")


def violation(record: Json) -> str:
    """Return the first value of a record that its type does not allow, in words; empty without one."""
    return _check_of(Record)(record).strip(". ")


def lacking(record: Json) -> str:
    """Return what a record of a good run lacks, in words; empty without it, and for a run that failed."""
    if record["status"] != "ok":
        return ""
    is_elsewhere = (record.get("serving") or {}).get("elsewhere")
    names = OF_GOOD_RUN if is_elsewhere else (*OF_GOOD_RUN, "energy")
    lacks = [name for name in names if record.get(name) is None]
    lacks += [f"layout.{name}" for name in OF_ITS_LAYOUT if record["layout"].get(name) is None]
    return f"it lacks {', '.join(lacks)}" if lacks else ""


def _check_of(kind: Any) -> Check:
    inner, limits = bare(kind)
    if inner is Any:
        return lambda _: ""
    origin, kinds, words = get_origin(inner) or inner, get_args(inner), in_words(kind)
    is_allowed: Callable[[Any], bool] = scalar_test(kind)
    container: Any = None
    is_optional, fewest = limits[OPTIONAL], limits["minItems"]
    if is_dataclass(origin):
        container, inside = dict, partial(_in_part, origin)
    elif origin in (list, dict):
        container, inside = origin, partial(_in_items, _check_of(kinds[-1]))
    elif any(get_origin(argument) in (list, dict) for argument in kinds):
        is_allowed = partial(_passes_any, [_check_of(argument) for argument in kinds])

    def check(value: Any) -> str:
        if value is None and is_optional:
            return ""
        if container and isinstance(value, container) and len(value) >= fewest:
            return inside(value)
        return "" if not container and is_allowed(value) else f" is {reprlib.repr(value)}, but must be {words}"

    return check


def _passes_any(checks: list[Check], value: Any) -> bool:
    return not all(check(value) for check in checks)


def _in_items(check: Check, value: Any) -> str:
    if isinstance(value, list) and len(value) > 2 and set(map(type, value)) in ({int}, {float}):
        value = [min(value), max(value)]  # other numbers break no rule that these keep
    items = enumerate(value) if isinstance(value, list) else value.items()
    return next((f".{key}{wrong}" for key, item in items if (wrong := check(item))), "")


def _in_part(part: Any, value: Any) -> str:
    for name, item in value.items():
        if wrong := _check_of_key(part, name)(item):
            return f".{name}{wrong}"
    return next((f" lacks '{name}'" for name in required_keys(part) if name not in value), "")


@lru_cache(maxsize=10_000)
def _check_of_key(part: Any, name: str) -> Check:
    others = (kind for pattern, kind in part.OTHERS.items() if re.search(pattern, name))
    return _check_of(keys_of(part).get(name) or next(others, Any))
