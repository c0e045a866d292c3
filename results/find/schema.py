"""The JSON schema of a record, made of the model, by which its types are checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from record.model import SCHEMA_VERSION, Json, Record
from results.files.json_schema import schema_of


def schema() -> dict[str, Any]:
    """Return the JSON schema of a record."""
    return schema_of(Record, f"The record of one run, version {SCHEMA_VERSION}")


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
