"""Tests whose programs are missing: skipped with what to install, or failed where all are required."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def run_without_programs(folder, **variables):
    (folder / "test_made_up.py").write_text(TESTS)
    (folder / "conftest.py").write_text((REPOSITORY / "conftest.py").read_text())
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
            "--rootdir",
            folder,
            folder,
        ],
        cwd=folder,
        env={"PATH": str(folder), "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
    )


def test_what_is_missing_is_skipped_and_the_last_lines_say_what_to_install(tmp_path):
    done = run_without_programs(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 2 skipped" in done.stdout
    assert "2 tests were not run: they need cc, podman, sbatch." in done.stdout
    assert "sudo apt-get install gcc libc6-dev podman slurm-wlm\n" in done.stdout


def test_where_all_are_required_what_is_missing_fails(tmp_path):
    done = run_without_programs(tmp_path, CARAML_REQUIRE_ALL="1")
    assert done.returncode == 1
    assert "1 passed" in done.stdout and "2 failed" in done.stdout
