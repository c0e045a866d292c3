"""Programs that only some tests need, and the packages of Debian and Ubuntu that have them.

`python3 tests/needs.py` prints the packages, `python3 tests/needs.py --programs` the programs.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from types import ModuleType

PACKAGES = {
    "cc": "gcc libc6-dev",
    "gcc": "gcc libc6-dev",
    "c++": "g++",
    "g++": "g++",
    "ssh-keygen": "openssh-client",
    "chromium": "chromium",
    "sbatch": "slurm-wlm",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "munged": "munge",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
    "podman": "podman",
    "runc": "runc",
    "ch-run": "charliecloud",
    "ch-image": "charliecloud python3-lark python3-requests",
    "mmdebstrap": "mmdebstrap",
    "qemu-aarch64-static": "qemu-user-static",
    "kubectl": "kubectl",  # 1.25 or newer: of Debian 13
}
REQUIRE_ALL = "CARAML_REQUIRE_ALL"
EMULATED = "CARAML_EMULATED"  # set where qemu-user runs the tests
NOT_RUN = "not run, needs "  # the start of the reason of a test that is skipped for want of something
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # daemons are not in every user's


def need(*programs: str) -> None:
    """Skip the test unless all programs are installed."""
    missing = [name for name in programs if shutil.which(name, path=PATH) is None]
    if missing:
        not_run(" ".join(missing))


def package(module: str, name: str, parts: str = "report frames dev") -> ModuleType:
    """Return a module of a package that only tests need; skip the test without it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        not_run(f"the package {name}: scripts/setup.sh {parts} installs it")
        raise


def need_root(why: str) -> None:
    """Skip the test unless root runs it, for a reason."""
    if os.getuid():
        not_run(f"root, {why}: run the tests as root")


def need_real_processor(why: str) -> None:
    """Skip the test where qemu-user emulates the processor, for a reason."""
    if os.environ.get(EMULATED):
        not_run(f"a real processor: {why}")


def not_run(what: str) -> None:
    """Skip the test for want of `what`, or fail where CARAML_REQUIRE_ALL=1 asks for all tests."""
    import pytest

    end = pytest.fail if os.environ.get(REQUIRE_ALL) == "1" else pytest.skip
    end(f"{NOT_RUN}{what}")


def closing_line(reasons: list[str]) -> str:
    """How to run the tests that lack a program, from the reasons of all skipped ones; empty where there are none."""
    number = sum(NOT_RUN in reason and not {*PACKAGES}.isdisjoint(reason.split()) for reason in reasons)
    return f"{number} tests lack a program: 'make test-packages test-skipped' runs them" if number else ""


if __name__ == "__main__":
    found = PACKAGES if "--programs" in sys.argv else {name for text in PACKAGES.values() for name in text.split()}
    print(*sorted(found))
