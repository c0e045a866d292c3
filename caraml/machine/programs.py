"""Run a program of the machine for what it says, and never wait for it without end."""

from __future__ import annotations

import subprocess


class ProgramError(Exception):
    """A program that could not be asked: one sentence."""


def ask(*command: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Return a completed program with its output, whatever its exit code.

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
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramError(f"{command[0]} did not answer within {limit_s:g} s") from error
    except FileNotFoundError as error:
        raise ProgramError(f"there is no {command[0]} on this machine") from error
    except OSError as error:
        raise ProgramError(f"{command[0]} cannot be started: {error.strerror}") from error


def words(done: subprocess.CompletedProcess[str]) -> str:
    """Why a program failed, in the one line of its own that most likely says it."""
    lines = [line.strip() for text in (done.stderr, done.stdout) for line in text.splitlines() if line.strip()]
    lines.sort(key=lambda line: "fatal" not in line)
    return lines[0] if lines else f"it ended with exit code {done.returncode} and said nothing"
