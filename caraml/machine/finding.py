"""Finding of a check for something that a job needs."""

from __future__ import annotations

from typing import NamedTuple

GOOD, WARNING, BAD = "ok", "look", "FAIL"


class Finding(NamedTuple):
    """Result of one check."""

    what: str
    state: str
    found: str
    to_do: str = ""
