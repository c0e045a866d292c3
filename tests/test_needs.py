"""Tests whose programs are missing: skipped with what to install, or failed where all are required."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import EMULATED, REQUIRE_ALL, need_real_processor

REPOSITORY = Path(__file__).resolve().parents[1]
TESTS = """
from tests.needs import need

def test_that_needs_slurm():
    need("sbatch", "podman")

def test_that_needs_a_compiler():
    need("cc")

def test_that_needs_nothing():
    pass
"""


def run_pytest(folder, *flags, **variables):
    (folder / "test_made_up.py").write_text(TESTS)
    (folder / "conftest.py").write_text((REPOSITORY / "conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-o", f"cache_dir={folder}/cache", *flags]
    environ = {"PATH": str(folder), "PYTHONPATH": str(REPOSITORY), **variables}
    return subprocess.run(
        [*command, "--rootdir", folder, folder], cwd=folder, env=environ, capture_output=True, text=True
    )


def test_what_is_missing_is_skipped_and_runs_once_it_is_installed(tmp_path):
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 2 skipped" in done.stdout
    assert "2 tests were not run: they need cc, podman, sbatch." in done.stdout
    assert "sudo apt-get install gcc libc6-dev podman slurm-wlm\n" in done.stdout
    for program in ("sbatch", "podman"):
        (tmp_path / program).touch(mode=0o755)
    done = run_pytest(tmp_path, "--skipped")
    assert "1 passed, 1 skipped, 1 deselected" in done.stdout, done.stdout + done.stderr
    (tmp_path / "cc").touch(mode=0o755)
    assert "1 passed, 2 deselected" in run_pytest(tmp_path, "--skipped").stdout
    assert run_pytest(tmp_path, "--skipped").returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_where_all_are_required_what_is_missing_fails(tmp_path):
    done = run_pytest(tmp_path, CARAML_REQUIRE_ALL="1")
    assert done.returncode == 1
    assert "1 passed" in done.stdout and "2 failed" in done.stdout


def test_a_test_that_emulation_cannot_pass_is_skipped_there_alone(monkeypatch):
    monkeypatch.delenv(REQUIRE_ALL, raising=False)
    monkeypatch.delenv(EMULATED, raising=False)
    need_real_processor("a reason")
    monkeypatch.setenv(EMULATED, "1")
    with pytest.raises(pytest.skip.Exception, match="not run, needs a real processor: a reason"):
        need_real_processor("a reason")
