"""Run a program of the machine for its output, with a time limit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping


class ProgramError(Exception):
    """A program did not start or did not end in time; the message is one sentence."""


class NoProgram(ProgramError):
    """The machine does not have the program."""


def ask(*command: str, limit_s: float, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Return a completed program with its output, whatever its exit code; `environ` replaces the environment.

    Raises ProgramError if it does not start, or does not end in time.
    """
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit_s,
            env=environ,
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramError(f"{command[0]} did not answer within {limit_s:g} s") from error
    except FileNotFoundError as error:
        raise NoProgram(f"there is no {command[0]} on this machine") from error
    except OSError as error:
        raise ProgramError(f"{command[0]} cannot be started: {error.strerror}") from error


def words(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line of a failed program's output that most likely states the reason."""
    lines = [line.strip() for text in (done.stderr, done.stdout) for line in text.splitlines() if line.strip()]
    lines.sort(key=lambda line: "fatal" not in line)
    return lines[0] if lines else f"it exited with {done.returncode} and printed nothing"
