"""The closing block of the tests: what was not run, and how to run it."""

from __future__ import annotations

from tests.needs import closing_block


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]  # file, line, reason
    if text := closing_block(reasons):
        terminalreporter.section("not run")
        terminalreporter.write_line(text)
