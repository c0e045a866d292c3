"""The threads of all tests, and the closing block: what was not run, and how to run it."""

from __future__ import annotations

import os

from tests.needs import closing_block

# Before PyTorch is loaded: tests share the cores, and OpenMP's threads would spin while they wait for each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]  # file, line, reason
    if text := closing_block(reasons):
        terminalreporter.section("not run")
        terminalreporter.write_line(text)
