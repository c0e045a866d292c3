"""A part of a record: an object of its file, whose attributes are its keys, and the change of a part.

None is a number or text that is unknown, or a part that the record lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeGuard, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[type], type]:
        """Return a class as it is: what a type checker knows about it, Python 3.10 need not."""
        return lambda kind: kind


Kind = TypeVar("Kind", bound="Part")
LARGEST = 1e30  # of numbers


class Allowed(NamedTuple):
    """Limit to the values of a type, in Annotated: what they must be, in words, and a test."""

    words: str
    test: Callable[[Any], Any]
    choices: tuple[Any, ...] = ()  # if there are no others


FROM_0 = Allowed("a number from 0 on", lambda number: 0 <= number < LARGEST)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Part:
    """A part of a record, a frozen dataclass: its attributes are the keys of its file; it is false without any."""

    OTHERS: ClassVar[dict[str, Any]] = {}  # types of further keys, by pattern

    def __init_subclass__(cls, *, eq: bool = True) -> None:
        dataclass(frozen=True, kw_only=True, eq=eq)(cls)

    @classmethod
    def of(cls: type[Kind], values: Mapping[str, Any]) -> Kind:
        """Return the part with values as a file has them, which are kept as they are."""
        part = object.__new__(cls)
        own = vars(part)
        own.update(values)
        kind: Any = cls  # mypy takes no class for hashable
        for key in own.keys() & _reserved(kind):
            own[f"{key}_"] = own.pop(key)
        for name, convert in _conversions(kind).items():
            if name in own:
                own[name] = convert(own[name])
        return part

    def __bool__(self) -> bool:
        return bool(vars(self))

    def number(self, name: str) -> float | None:
        """Return the number with a name; None without one."""
        value = vars(self).get(name)
        return value if is_number(value) else None

    if not TYPE_CHECKING:  # so that mypy knows the fields alone

        def __getattr__(self, name: str) -> Any:
            if name not in (made := _factories(type(self))):
                raise AttributeError(f"{type(self).__name__} has no {name}")
            return made[name]()


@cache
def _factories(part: type) -> dict[str, Callable[[], Any]]:
    return {one.name: one.default_factory for one in fields(part) if one.default_factory is not MISSING}


@cache
def _reserved(part: Any) -> set[str]:
    """Return the keys that are no names of fields: a keyword of Python, or what a part has besides its fields."""
    names = {one.name for one in fields(part)}
    return {name.rstrip("_") for name in names if name.endswith("_")} | (set(dir(part)) - names)


@cache
def _conversions(part: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the conversion of each field whose value has parts."""
    types = get_type_hints(part)
    return {one.name: convert for one in fields(part) if (convert := _conversion(types[one.name]))}


def _conversion(kind: Any) -> Callable[[Any], Any] | None:
    """Return the conversion of a value into parts; None if it has none."""
    if isinstance(kind, type) and issubclass(kind, Part):
        return lambda value: kind.of(value) if isinstance(value, dict) else value
    inner = next((one for one in map(_conversion, get_args(kind)) if one), None)
    if inner is None or get_origin(kind) not in (list, dict):
        return inner
    if get_origin(kind) is list:
        return lambda value: [inner(one) for one in value] if isinstance(value, list) else value
    return lambda value: {key: inner(one) for key, one in value.items()} if isinstance(value, dict) else value


def as_json(value: Any) -> Any:
    """Return a part, or a list or dictionary of parts, as a file has it."""
    if isinstance(value, Part):
        kind: Any = type(value)
        left_out, reserved = getattr(kind, "ADDED", ()), _reserved(kind)
        names = {f"{key}_": key for key in reserved}
        return {names.get(name, name): as_json(one) for name, one in vars(value).items() if name not in left_out}
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    return [as_json(one) for one in value] if isinstance(value, list | tuple) else value


def changed(part: Kind, **values: Any) -> Kind:
    """Return a copy of a part with other values, which are parts themselves where its fields are."""
    copy = object.__new__(type(part))
    vars(copy).update(vars(part) | values)
    return copy


def with_known(part: Kind, values: Mapping[str, Any]) -> Kind:
    """Return a part with other values; one that is None or the same leaves it as it is."""
    own = vars(part)
    other = {
        name: value
        for name, value in values.items()
        if value is not None and value is not own.get(name) and (isinstance(value, Part) or value != own.get(name))
    }
    return changed(part, **other) if other else part


def is_number(value: Any) -> TypeGuard[float]:
    """Check for a number; True and False are none."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool))
