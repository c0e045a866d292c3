"""The closing block of the tests: what was not run, and how to run it."""

from __future__ import annotations

from tests.needs import closing_block


def pytest_terminal_summary(terminalreporter):
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    if text := closing_block(reasons):
        terminalreporter.section("not run")
        terminalreporter.write_line(text)
