"""The JSON schema of a record, made of the model.

`python -m results.record > results/record/record.schema.json` stores it for programs outside of the suite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from results.json_schema import schema_of
from results.record.model import SCHEMA_VERSION, RunRecord


def schema() -> dict[str, Any]:
    """Return the JSON schema of a record."""
    return schema_of(RunRecord, f"The record of one run, version {SCHEMA_VERSION}")


def violation(record: dict[str, Any]) -> str:
    """Return how a record breaks the schema; empty if it does not."""
    validate, error_type = _validator()
    try:
        validate(record)
    except error_type as error:
        return str(error)
    return ""


@cache
def _validator() -> tuple[Callable[[dict[str, Any]], Any], type[Exception]]:
    import fastjsonschema

    return fastjsonschema.compile(schema(), use_default=False), fastjsonschema.JsonSchemaValueException
