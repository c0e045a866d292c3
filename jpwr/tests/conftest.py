"""What the tests of the sampler share: a clock that is set by hand, and a stand-in for the vendor's library."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jpwr.clock import Clock

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a job in the background: its children would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


def build(folder: Path, library: str, *sources: Path) -> Path:
    """Compile a stand-in for a vendor's library; returns its folder, for LD_LIBRARY_PATH."""
    if shutil.which("gcc") is None:
        pytest.fail("gcc is needed: apt-get install gcc libc6-dev")
    flags = ["-O1", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC", "-I", str(HERE)]
    subprocess.run(["gcc", *flags, "-o", str(folder / library), *map(str, sources), "-lm"], check=True)
    return folder


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in libnvidia-ml.so.1."""
    return build(tmp_path_factory.mktemp("nvml"), "libnvidia-ml.so.1", HERE / "nvml_stand_in.c")


@pytest.fixture(scope="session")
def amdsmi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in libamd_smi.so, which has every function that the package amdsmi looks up."""
    folder = tmp_path_factory.mktemp("amdsmi")
    package = importlib.util.find_spec("amdsmi")
    if package is None or package.origin is None:
        pytest.fail("amdsmi is needed: pip install amdsmi")
    wrapper = Path(package.origin).with_name("amdsmi_wrapper.py").read_text()
    asked = set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", wrapper))
    answered = set(re.findall(r"^int (\w+)", (HERE / "amdsmi_stand_in.c").read_text(), re.MULTILINE))
    # 2 is AMDSMI_STATUS_NOT_SUPPORTED.
    rest = folder / "rest.c"
    rest.write_text("".join(f"int {name}(void) {{ return 2; }}\n" for name in sorted(asked - answered)))
    return build(folder, "libamd_smi.so", HERE / "amdsmi_stand_in.c", rest)


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
