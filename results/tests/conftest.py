"""The folder of a job, a wide terminal, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jpwr.tests.conftest import amdsmi_folder as amdsmi_folder
from results.tests.builder import JobFolder
from tests.needs import need


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep each row of a table on one line."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


LONG_MS = 600_000  # against hanging alone: a busy machine takes what it takes


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser of this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        need("chromium")
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("playwright is needed: scripts/setup.sh report frames dev")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"], timeout=LONG_MS)
        yield browser
        browser.close()
