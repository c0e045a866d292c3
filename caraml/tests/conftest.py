"""Programs of a machine that are made up."""

from __future__ import annotations

import pytest


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Add a program by its name and script; nothing else is in PATH than these, unless `rest` says."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name, script, rest=""):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        if rest:
            monkeypatch.setenv("PATH", f"{folder}:{rest}")

    return add
