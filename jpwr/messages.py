"""Messages on stderr; a message never ends a run, even if nobody reads stderr or the disk is full."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from typing import Iterable

STDERR = 2
MOST_OF_A_NAME = 80  # characters


def log(message: str) -> None:
    """Print a message on stderr, after `jpwr: `."""
    write(f"jpwr: {message}\n")


def write(text: str) -> None:
    """Write text to stderr unchanged; drop what cannot be written."""
    # Not by Python's stream, which would retry at exit and change the exit code.
    rest = text.encode("utf-8", "backslashreplace")
    with suppress(OSError):
        while rest:
            rest = rest[os.write(STDERR, rest) :]


def printable(text: str) -> str:
    """Return the text with unprintable characters, such as control characters, escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def short(name: str) -> str:
    """Return a name for a message: printable, and at most MOST_OF_A_NAME characters long."""
    text = printable(name)
    return text if len(text) <= MOST_OF_A_NAME else f"{text[: MOST_OF_A_NAME - 1]}…"


def number_of(number: int, what: str) -> str:
    """Return "1 file" or "2 files", "1 process" or "2 processes"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}{'es' if what.endswith('s') else 's'}"


def meant(name: str, known: Iterable[str]) -> str:
    """Return a question with the known name that is closest to an unknown one, whatever its case; empty without one.

    A name that begins with the unknown one is closer than others.
    """
    import difflib

    by_lower = {candidate.lower(): candidate for candidate in known}
    longer = [candidate for candidate in by_lower if name and candidate.startswith(name.lower())]
    closest = sorted(longer, key=len) or difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean '{by_lower[closest[0]]}'?" if closest else ""


def near(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the closest known one, or all of them."""
    known = list(known)
    return meant(name, known) or f"choose one of {', '.join(known)}"


def open_standard_streams() -> None:
    """Make the standard streams safe to print on.

    A closed stdin, stdout or stderr becomes /dev/null, so that no file opened later gets its number; the command still
    finds it closed. Characters that stdout's encoding lacks are escaped, as Python does on stderr.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of libraries are for developers
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    for number in (0, 1, STDERR):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


def settle_streams() -> None:
    """Flush Python's stdout and stderr; drop what cannot be written, because it would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
