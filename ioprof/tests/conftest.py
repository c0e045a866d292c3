"""A program that reads in many ways, under ioprof."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Callable, NamedTuple

import pytest

from ioprof.counts import FileCounts, Profile
from ioprof.folder import load
from jpwr.tests.conftest import DEADLINE_S, environment
from tests.needs import need

HERE = Path(__file__).parent


class Profiled(NamedTuple):
    """A command's own end, and its profile."""

    done: subprocess.CompletedProcess[bytes]
    profile: Profile

    def of(self, path: Path) -> list[FileCounts]:
        """What each process that read a file read of it, in the order of their starts."""
        return [
            one
            for process in self.profile.processes
            for one in process.files
            if one.path == str(path) and (one.opens or one.reads)
        ]

    def only(self, path: Path) -> FileCounts:
        """The same, of one process."""
        [found] = self.of(path)
        return found

    @property
    def said(self) -> str:
        """Of ioprof's own lines."""
        return self.done.stderr.decode()


Ioprof = Callable[..., Profiled]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library is built, once for all."""
    need("cc")
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> str:
    """reader.c as a program, as distributions build: optimised and fortified."""
    return built(tmp_path_factory.mktemp("reader") / "reader", "-O2", "-D_FORTIFY_SOURCE=2")


@pytest.fixture(scope="session")
def static_reader(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same, linked statically."""
    return built(tmp_path_factory.mktemp("reader") / "static_reader", "-static")


def built(program: Path, *flags: str) -> str:
    """reader.c with the system's compiler."""
    need("cc")
    done = subprocess.run(
        ["cc", *flags, "-o", str(program), str(HERE / "reader.c"), "-lpthread"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return str(program)


@pytest.fixture
def ioprof(tmp_path: Path, cache: Path) -> Ioprof:
    """Profile a command in an empty folder; keyword arguments are environment variables."""

    def profiled(*command: str, stdin: bytes = b"", **variables: str) -> Profiled:
        done = run_ioprof("--out", "io", "--", *command, cwd=tmp_path, cache=cache, stdin=stdin, **variables)
        return Profiled(done, load(tmp_path / "io"))

    return profiled


def run_ioprof(
    *arguments: str, cwd: Path, cache: Path, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """The command with what it said, whatever its exit code."""
    environ = environment(**{"XDG_CACHE_HOME": str(cache), **variables})
    command = [sys.executable, "-m", "ioprof", *arguments]
    return subprocess.run(command, cwd=cwd, env=environ, input=stdin, capture_output=True, timeout=DEADLINE_S)
