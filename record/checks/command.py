"""Rule on the command line of a run and its options."""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import Any

from record.checks.run import TOLERANCE, Sentences
from record.model import Record
from record.part import is_number

SWITCH = {"on": True, "off": False}


def _options_are_those_of_the_command(run: Record) -> Sentences:
    """An option that is not a flag has its default, which is unknown here."""
    flags = _flags(run.provenance.command or [])
    for group, options in run.config.items():
        for option in options.keys() & flags.keys():
            value = "null" if options[option] is None else options[option]
            asked = _as_used(flags[option], options[option])
            is_close = is_number(asked) and is_number(value) and math.isclose(asked, value, rel_tol=TOLERANCE)
            if value != asked and not is_close:
                yield f"config.{group}.{option} is stored as {value!r}, but its command line has {asked!r}"


def _flags(command: list[Any]) -> dict[str, str]:
    """Map each option of a command line to its text; a flag without a value is on, or off with `--no-`."""
    options, words = {}, [str(word) for word in command]
    for word, following in zip_longest(words, words[1:], fillvalue="--"):
        flag, has_value, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            option = flag.replace("-", "_")
            options[option] = value if has_value else "on" if following.startswith("--") else following
            options |= {option[3:]: "off"} if option.startswith("no_") else {}
    return options


def _as_used(text: str, used: Any) -> Any:
    """Convert the text of a flag to the type of the value that was used; `auto` leaves the value to the benchmark."""
    if text == "auto" or isinstance(used, list):
        return used
    if isinstance(used, bool):
        return SWITCH.get(text, text)
    try:
        return float(text) if isinstance(used, int | float) else text
    except ValueError:
        return text


RULES = (_options_are_those_of_the_command,)
