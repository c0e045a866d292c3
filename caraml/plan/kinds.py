"""Kinds of values that a key of systems.yaml or site.yaml may have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Kind(NamedTuple):
    """Allowed values of a key: in words, and as a regular expression for the text in the file."""

    words: str
    pattern: str = r"(?s:.*)"
    convert: Callable[[str], str | int | float] = str

    def allows(self, text: str) -> bool:
        """Return whether a text is a value of this kind."""
        return re.fullmatch(self.pattern, text) is not None


def one_of(*choices: str) -> Kind:
    """Return the kind of which only these texts are."""
    return Kind(f"one of {', '.join(choices)}", "|".join(map(re.escape, choices)))


ANY_TEXT = Kind('a text, or "" for none')
TEXT = Kind("a text", r"(?s:.*\S.*)")
FROM_0 = Kind("a whole number from 0 on", r"0|[1-9][0-9]*", int)
FROM_1 = Kind("a whole number from 1 on", r"[1-9][0-9]*", int)
FIGURE = Kind(
    "a number from 0 on",
    r"[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?",
    lambda text: int(text) if text.isdecimal() else float(text),
)
SWEEP = Kind("whole numbers from 1 on with spaces between them", rf" *{FROM_1.pattern}( +{FROM_1.pattern})* *")
RUNTIME = one_of("apptainer", "podman", "charliecloud", "none")
SUBMIT = one_of("bash", "sbatch", "kubernetes")
