"""Find out why a job failed, from its exit code and from what it wrote."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

EXIT_JPWR_FAILED = 125
TELLING = re.compile("error|signal", re.IGNORECASE)  # the last line with such a word says most of why a job failed
# Of Python's and torchrun's, lines with such a word that tell nothing.
NOT_TELLING = re.compile(r'^File "|^error_file: |To enable traceback see')
# A launcher of ranks begins to say which of them failed.
OF_LAUNCHER = re.compile(r"^spawn: error: rank|\] failed \(exitcode: ")
# What a rank has not said itself; one that aborts has.
KILLED = re.compile(r"Signal [0-9]+ \(SIG(?!ABRT)|exit code -(?!6\b)")


def cause(exit_code: int, errors: Path) -> str:
    """Return why a program failed, from its exit code and the last telling line that it wrote to a file."""
    if 128 < exit_code < 128 + 65:
        number = exit_code - 128
        name = signal.Signals(number).name if number in signal.Signals.__members__.values() else "unknown"
        cause = f"ended by signal {number} ({name})"
    else:
        cause = f"ended with exit code {exit_code}"
    lines = _lines(errors)
    if exit_code != EXIT_JPWR_FAILED:  # else jpwr's last words are a summary, and not the reason
        lines = [line for line in lines if not line.startswith(("ioprof: ", "jpwr: ", "job.sh: "))]
    reason = _reason(lines)
    return f"{cause}: {reason}" if reason else cause


def _reason(lines: Sequence[str]) -> str:
    """Return the most informative line: that of the rank that failed first, else its launcher's line about it."""
    launcher = next((index for index, line in enumerate(lines) if OF_LAUNCHER.search(line)), len(lines))
    ranks, of_launcher = lines[:launcher], list(_of_first(lines[launcher:]))
    killed = [line for line in of_launcher if KILLED.search(line)]
    telling, told_of = ([line for line in said if _is_telling(line)] for said in (ranks, of_launcher))
    exit_codes = [line for line in of_launcher if line.startswith("exitcode")]
    return next((said[-1] for said in (killed, telling, told_of, ranks, exit_codes) if said), "")


def _of_first(lines: Sequence[str]) -> Iterator[str]:
    """Return a launcher's lines about the rank that failed first: spawn's one line, or torchrun's last block."""
    begin = next((index for index, line in enumerate(lines) if line.startswith("Root Cause")), None)
    if begin is None:
        return iter(lines[:1])
    return takewhile(lambda line: not line.startswith("==="), lines[begin + 1 :])


def _is_telling(line: str) -> bool:
    return bool(TELLING.search(line)) and not NOT_TELLING.search(line)


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []
