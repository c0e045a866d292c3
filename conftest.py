"""The threads of all tests; the closing line on what was not run, and the option that runs it."""

from __future__ import annotations

import os

from tests.needs import NOT_RUN, closing_line

# Before PyTorch is loaded: tests share the cores, and OpenMP's threads would spin while they wait for each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

SKIPPED = "caraml/skipped"  # in pytest's cache: the tests that the last run skipped for want of something


def pytest_addoption(parser):
    parser.addoption("--skipped", action="store_true", help="run only what the last run skipped for a missing program")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--skipped"):
        wanted = set(config.cache.get(SKIPPED, []))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]


def pytest_terminal_summary(terminalreporter, config):
    skipped = terminalreporter.stats.get("skipped", [])
    # Each has its file, line and reason.
    reasons = {report.nodeid: report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)}
    if cache := getattr(config, "cache", None):  # none under `-p no:cacheprovider`
        cache.set(SKIPPED, [name for name, reason in reasons.items() if NOT_RUN in reason])
    if text := closing_line(list(reasons.values())):
        terminalreporter.section("not run")
        terminalreporter.write_line(text)
