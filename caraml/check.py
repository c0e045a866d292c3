"""Check of a check for something that a job needs."""

from __future__ import annotations

from typing import NamedTuple

GOOD, WARNING, BAD = "ok", "look", "FAIL"


class Check(NamedTuple):
    """Result of one check: its subject, state, what was found and what to do."""

    what: str
    state: str
    found: str
    to_do: str = ""
