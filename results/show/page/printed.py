"""PDF of the page, printed by a browser of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from jpwr.process.whole_file import write_whole
from results.record.records import RecordError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PDF_TIMEOUT_S = 600


def browser_for(page: Path) -> str:
    """Return the browser that prints a page as PDF; raises RecordError if none is installed."""
    found = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if found is None:
        raise RecordError(
            f"{page}: a PDF needs a browser that prints, but none of {', '.join(BROWSERS)} is installed: "
            "install one, or write report.html and print it elsewhere"
        )
    return found


def write_pdf(text: str, page: Path) -> None:
    """Print the page with a browser; raises RecordError without one, or if it fails."""
    browser = browser_for(page)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "report.html"
        source.write_text(text, encoding="utf-8")
        printed = Path(folder) / "report.pdf"
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            f"--user-data-dir={folder}/profile",
            "--no-pdf-header-footer",
        ]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to run as root with its sandbox
        command += [f"--print-to-pdf={printed}", source.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PDF_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise RecordError(f"{page}: {browser} did not print it within {PDF_TIMEOUT_S} s") from error
        if done.returncode or not printed.exists():
            words = (done.stderr.strip() or "no message").splitlines()[-1]
            raise RecordError(f"{page}: {browser} could not print it: {words}")
        write_whole(page, printed.read_bytes())
