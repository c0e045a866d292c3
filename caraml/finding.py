"""What was found where something is needed for a job."""

from __future__ import annotations

from typing import NamedTuple

GOOD, WARNING, BAD = "ok", "look", "FAIL"


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: str
    found: str
    to_do: str = ""
