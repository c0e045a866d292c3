"""Messages on stderr; a message never ends a run, even if nobody reads stderr or the disk is full."""

from __future__ import annotations

import os
import select
import sys
import warnings
from contextlib import suppress

STDERR = 2
MOST_OF_A_NAME = 80  # characters
WAIT_S = 1.0  # for who reads a pipe that is full and may not be waited for


def say(message: str) -> None:
    """Print one line on stderr, which begins with `jpwr: `."""
    write(f"jpwr: {message}\n")


def write(text: str) -> None:
    """Write text to stderr unchanged; drop what cannot be written."""
    # Past Python's stream: what that could not write, it tries again at the end, and changes the exit code.
    rest = text.encode("utf-8", "backslashreplace")
    with suppress(OSError):
        while rest:
            try:
                rest = rest[os.write(STDERR, rest) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(STDERR, select.POLLOUT)
                if not poll.poll(1000 * WAIT_S):
                    return


def printable(text: str) -> str:
    """Return the text with characters that no terminal can show, such as control characters, escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def short(name: str) -> str:
    """Return a name, shortened to fit into a sentence."""
    shown = printable(name)
    return shown if len(shown) <= MOST_OF_A_NAME else f"{shown[: MOST_OF_A_NAME - 1]}…"


def open_standard_streams() -> None:
    """Make standard streams such that nothing printed raises an error or goes elsewhere.

    Where stdin, stdout or stderr is closed, /dev/null is opened: else the next file that is opened is taken for it. The
    command still finds it closed. What stdout's encoding lacks is escaped, as Python does on stderr.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries' words are for those who write programs
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    for number in (0, 1, STDERR):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def settle_streams() -> None:
    """Write out Python's own stdout and stderr; what cannot be written is dropped, as it would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
