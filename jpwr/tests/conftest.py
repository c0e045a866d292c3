"""What the tests of the sampler share: a clock that is set by hand, and a stand-in for the vendor's library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jpwr.clock import Clock

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]


class FakeClock(Clock):
    """Time passes when somebody sleeps, or when a test says so."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def sleep_until(self, deadline_s: float) -> None:
        self.time_s = max(self.time_s, deadline_s)

    def wake(self) -> None:
        pass


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in libnvidia-ml.so.1, for LD_LIBRARY_PATH."""
    if shutil.which("gcc") is None:
        pytest.fail("gcc is needed: apt-get install gcc libc6-dev")
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    source = HERE / "nvml_stand_in.c"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    return folder


Jpwr = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), **variables}


@pytest.fixture
def jpwr(tmp_path: Path) -> Jpwr:
    """Run the command in an empty folder; keyword arguments are environment variables."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "jpwr", *arguments],
            cwd=tmp_path,
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run
