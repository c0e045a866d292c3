"""Find out why a job failed, from its exit code and from what it wrote."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

EXIT_JPWR_FAILED = 125
CAUSE = re.compile("error|signal", re.IGNORECASE)  # the last line with such a word explains a failure best
# Lines of Python and torchrun that match CAUSE and explain nothing.
NO_CAUSE = re.compile(r'^File "|^error_file: |To enable traceback see')
# First line of a launcher's report on the ranks that failed.
LAUNCHER = re.compile(r"^spawn: error: rank|\] failed \(exitcode: ")
# Signals that end a rank before it can report; one that aborts (signal 6) has reported.
KILLED = re.compile(r"Signal [0-9]+ \(SIG(?!ABRT)|exit code -(?!6\b)")


def cause(exit_code: int, errors: Path) -> str:
    """Return why a program failed, from its exit code and the last informative line of its error output."""
    if 128 < exit_code < 128 + 65:
        number = exit_code - 128
        name = signal.Signals(number).name if number in signal.Signals.__members__.values() else "unknown"
        cause = f"ended by signal {number} ({name})"
    else:
        cause = f"ended with exit code {exit_code}"
    text = errors.read_text(errors="replace") if errors.is_file() else ""
    lines = list(filter(None, map(str.strip, text.splitlines())))
    if exit_code != EXIT_JPWR_FAILED:  # otherwise jpwr's last lines are a summary, and not the reason
        lines = [line for line in lines if not line.startswith(("ioprof: ", "jpwr: ", "job.sh: "))]
    reason = _reason(lines)
    return f"{cause}: {reason}" if reason else cause


def _reason(lines: Sequence[str]) -> str:
    """Return the most informative line: that of the rank that failed first, else its launcher's line about it."""
    launcher = next((index for index, line in enumerate(lines) if LAUNCHER.search(line)), len(lines))
    by_ranks, by_launcher = lines[:launcher], list(_on_first_failure(lines[launcher:]))
    killed = [line for line in by_launcher if KILLED.search(line)]
    sources = by_ranks, by_launcher
    causes = [[line for line in source if CAUSE.search(line) and not NO_CAUSE.search(line)] for source in sources]
    exit_codes = [line for line in by_launcher if line.startswith("exitcode")]
    return next((source[-1] for source in (killed, *causes, by_ranks, exit_codes) if source), "")


def _on_first_failure(lines: Sequence[str]) -> Iterator[str]:
    """Return a launcher's lines about the rank that failed first: spawn's one line, or torchrun's last block."""
    begin = next((index for index, line in enumerate(lines) if line.startswith("Root Cause")), None)
    if begin is None:
        return iter(lines[:1])
    return takewhile(lambda line: not line.startswith("==="), lines[begin + 1 :])
