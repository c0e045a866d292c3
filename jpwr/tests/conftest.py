"""Shared by tests of the sampler: clocks that a test moves, waiting for an event, stand-ins of libraries."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

from jpwr.cli import main
from jpwr.process.clock import Clock
from jpwr.process.node import GLOBAL_RANKS, LOCAL_RANKS
from jpwr.process.threads import FORWARDED_SIGNALS
from jpwr.trace.trace import Trace
from jpwr.trace.writers import read_trace
from tests.needs import need, package

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
# No test waits for a time: each waits for something that must come, and this ends one that hangs.
DEADLINE_S = 600.0
NO_ERRORS = "posix_spawn reports no error under qemu-user, which makes a fork of a vfork"

# No example's time is a fault, nor what making it takes: machines differ.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Of a job in the background, or under nohup: its children would ignore them, too.
for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, default)


def wait_until(condition: Callable[[], Any], what: str) -> None:
    """Return as soon as the condition holds; `what` says what did not come."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline_s:
            pytest.fail(f"{what} did not come in {DEADLINE_S:g} s")
        time.sleep(0.01)


def rows_of(trace: Path) -> int:
    """How many rows a trace that is being written has."""
    return sum(line[:1].isdigit() for line in trace.read_text().splitlines()) if trace.exists() else 0


def trace_of(folder: Path) -> Trace:
    """The trace that a command with `--df-out out` has left in a folder."""
    return read_trace(folder / "out" / "trace.csv")


class FakeClock(Clock):
    """Time passes when somebody sleeps, or when a test says so; for one thread."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def sleep_until(self, deadline_s: float) -> None:
        self.time_s = max(self.time_s, deadline_s)

    def wake(self) -> None:
        pass


class SteppedClock(Clock):
    """A clock for the sampler's threads: it stands still while one of them is at work, and a test moves it.

    What happens, and when, is then the same on every machine.
    """

    def __init__(self, time_s: float = 0.0) -> None:
        self.time_s = time_s
        self._asleep: dict[threading.Thread, float] = {}
        self._changed = threading.Condition()
        self._awake = False

    def now_s(self) -> float:
        return self.time_s

    def sleep_until(self, deadline_s: float) -> None:
        me = threading.current_thread()
        with self._changed:
            if deadline_s > self.time_s:
                self._asleep[me] = deadline_s
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._awake or me not in self._asleep)
                self._asleep.pop(me, None)

    def wake(self) -> None:
        with self._changed:
            self._awake = True
            self._changed.notify_all()

    def move_to(self, time_s: float) -> None:
        """Go from deadline to deadline, each sleeper going on at its own, until that time."""
        with self._changed:
            while True:
                self._wait_until_all_sleep()
                sleeper = min(self._asleep, key=self._asleep.__getitem__)
                self.set(min(time_s, self._asleep[sleeper]))
                if self._asleep[sleeper] > time_s:
                    return
                del self._asleep[sleeper]
                self._changed.notify_all()

    def set(self, time_s: float) -> None:
        self.time_s = max(self.time_s, time_s)

    def _wait_until_all_sleep(self) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not all(one in self._asleep for one in threading.enumerate() if one.name.startswith("jpwr")):
            if time.monotonic() > end_s:
                pytest.fail(f"a thread of the sampler did not come to its next sleep in {DEADLINE_S:g} s")
            self._changed.wait(0.01)  # one that ends tells nobody


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stepped() -> SteppedClock:
    return SteppedClock()


def build(folder: Path, library: str, *sources: Path) -> Path:
    """Compile a stand-in for a vendor's library; returns its folder, for LD_LIBRARY_PATH."""
    need("gcc")
    flags = ["-O1", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC", "-I", str(HERE)]
    subprocess.run(["gcc", *flags, "-o", str(folder / library), *map(str, sources), "-lm"], check=True)
    return folder


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in libnvidia-ml.so.1."""
    package("pynvml", "nvidia-ml-py")
    return build(tmp_path_factory.mktemp("nvml"), "libnvidia-ml.so.1", HERE / "nvml_stand_in.c")


@pytest.fixture(scope="session")
def amdsmi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in libamd_smi.so, which has every function that the package amdsmi looks up."""
    folder = tmp_path_factory.mktemp("amdsmi")
    package = importlib.util.find_spec("amdsmi")
    if package is None or package.origin is None:
        pytest.fail("amdsmi is needed: scripts/setup.sh report frames dev installs what the tests need")
    wrapper = Path(package.origin).with_name("amdsmi_wrapper.py").read_text()
    asked = set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", wrapper))
    answered = set(re.findall(r"^int (\w+)", (HERE / "amdsmi_stand_in.c").read_text(), re.MULTILINE))
    # 2 is AMDSMI_STATUS_NOT_SUPPORTED.
    rest = folder / "rest.c"
    rest.write_text("".join(f"int {name}(void) {{ return 2; }}\n" for name in sorted(asked - answered)))
    return build(folder, "libamd_smi.so", HERE / "amdsmi_stand_in.c", rest)


def install_method(folder: Path, name: str, lines: str, entry_points: str = "") -> None:
    """A package in a folder of Python's path that adds a method; `lines` are the body of its open_channels(stack)."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    source = f"from jpwr.channel import Channel, ChannelInfo, Scope\ndef open_channels(stack):\n{body}"
    (folder / f"{name}_method.py").write_text(source)
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[jpwr.methods]\n{name} = {name}_method:open_channels\n{entry_points}")


def environment(**variables: str) -> dict[str, str]:
    """Of a command under test: this one's, but for what would choose ranks or devices; bash knows waits.sh."""
    devices = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
    chosen = {*GLOBAL_RANKS, *LOCAL_RANKS, *devices, "JPWR_MARKS", "JPWR_CPU_TDP_W"}
    inherited = {name: value for name, value in os.environ.items() if name not in chosen}
    return {**inherited, "PYTHONPATH": str(REPOSITORY), "BASH_ENV": str(HERE / "waits.sh"), **variables}


def run(*command: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program with what it said, whatever its exit code; keyword arguments are environment variables."""
    environ = environment(**variables)
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=DEADLINE_S)


def sampled(folder: Path, method: str, library: Path, **variables: str) -> tuple[Trace, str]:
    """Sample some rows of a library's stand-in in a folder; returns the trace and the messages."""
    command = ("--methods", method, "--interval", "10", "--df-out", "out", "--", "bash", "-c", "rows 3")
    environ = {"LD_LIBRARY_PATH": str(library), "STAND_IN_SHAPE": "constant", **variables}
    done = run(sys.executable, "-m", "jpwr", *command, cwd=folder, **environ)
    assert done.returncode == 0, done.stderr
    return trace_of(folder), done.stderr


Jpwr = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def jpwr(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Jpwr:
    """Run the command in an empty folder; keyword arguments are environment variables.

    In this process, unless it loads a stand-in for a library, or may become the measured command.
    """
    alone = {"LD_LIBRARY_PATH", *GLOBAL_RANKS, *LOCAL_RANKS}

    def run_jpwr(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        if alone & {*variables} or {"--use-mpi", "--mpi-ranks"} & {*arguments}:
            return run(sys.executable, "-m", "jpwr", *arguments, cwd=tmp_path, **variables)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGPIPE, *FORWARDED_SIGNALS)}
        capfd.readouterr()
        with monkeypatch.context() as patch, mock.patch.dict(os.environ, environment(**variables), clear=True):
            patch.chdir(tmp_path)
            try:
                code = main(arguments)
            except SystemExit as error:
                code = int(error.code or 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run_jpwr
