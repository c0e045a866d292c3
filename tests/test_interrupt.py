"""The demo and JUBE end at Ctrl-C and SIGTERM, and leave no process: real JUBE, torchrun and training."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import SMALL, made_up_system, make_checkout
from tests.waiting import POLL_S, processes, until

pytestmark = pytest.mark.long

DEMO = ("scripts/demo.sh", "TESTBED")
JUBE = ("jube", "run", "jube/llm.yaml", "--tag", "TESTBED", "synthetic")
CTRL_C = b"\x03"
PROGRESS = re.compile(r"000001_benchmark: measured step \d+ of \d+, \d+ s to go")
# As an interactive shell: its command is a process group in the foreground, and it stays when the command has ended.
SHELL = """
import os, signal, subprocess, sys
with subprocess.Popen(sys.argv[2:], cwd=sys.argv[1], preexec_fn=os.setpgrp) as command:
    os.tcsetpgrp(0, command.pid)
for ignored in (signal.SIGTTOU, signal.SIGINT):
    signal.signal(ignored, signal.SIG_IGN)
os.tcsetpgrp(0, os.getpgrp())
print("exit code", command.returncode, flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, jube_command):
    """One whose training would take half an hour; the data is made once."""
    block = made_up_system(devices_sweep="2", batch_sweep="8", min_measured_s=1800, power_methods="estimate")
    return make_checkout(tmp_path_factory.mktemp("interrupt") / "caraml", block, SMALL)


@contextmanager
def at_terminal(checkout: Path, *command: str) -> Iterator[tuple[int, int, Callable[[], str]]]:
    """A command in the foreground of a terminal of its own: the shell, the terminal's other end and what it shows."""
    terminal, other = pty.openpty()
    os.set_blocking(terminal, False)
    shown = bytearray()

    def screen() -> str:
        with suppress(BlockingIOError, OSError):
            while True:
                shown.extend(os.read(terminal, 65536))
        return shown.decode(errors="replace")

    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYTHONPATH": str(checkout)}
    streams = {"stdin": other, "stdout": other, "stderr": other}
    shell = ["setsid", "--ctty", sys.executable, "-c", SHELL, str(checkout), *command]
    with subprocess.Popen(shell, cwd="/", env=environ, **streams) as started:
        try:
            yield started.pid, terminal, screen
        finally:
            started.kill()
            for pid in processes(checkout, below=True):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.close(other)
            os.close(terminal)


PREPARES, TRAINS = ("benchmarks.resnet50.prepare",), ("-u", "benchmarks.llm_training")


@pytest.mark.parametrize(
    ("command", "busy_with", "presses", "code"),
    [
        pytest.param(DEMO, PREPARES, 0, 143, id="demo, SIGTERM while data is made", marks=pytest.mark.slow),
        pytest.param(DEMO, TRAINS, 0, 143, id="demo, SIGTERM", marks=pytest.mark.slow),
        pytest.param(DEMO, TRAINS, 1, 130, id="demo, Ctrl-C", marks=pytest.mark.slow),
        pytest.param(JUBE, TRAINS, 1, "", id="jube run, Ctrl-C"),
        pytest.param(JUBE, TRAINS, 20, "", id="jube run, Ctrl-C again and again", marks=pytest.mark.slow),
    ],
)
def test_what_is_interrupted_leaves_no_process(checkout, command, busy_with, presses, code):
    trained = set(checkout.glob("jube/llm_run/*"))
    with at_terminal(checkout, *command) as (shell, terminal, screen):
        found = lambda: processes(checkout, *busy_with, below=True)  # noqa: E731
        until(lambda: screen() and len(found()) >= (2 if busy_with == TRAINS else 1), "its work", screen)
        if command == JUBE:
            until(lambda: PROGRESS.search(screen()), "progress", screen)
        if not presses:
            os.kill(int(Path(f"/proc/{shell}/task/{shell}/children").read_text()), signal.SIGTERM)
        for _ in range(presses):
            os.write(terminal, CTRL_C)
            time.sleep(POLL_S)
        until(lambda: "exit code" in screen(), "the end", screen)
        # JUBE does not wait for its job, which writes its result before it ends.
        until(lambda: not processes(checkout, below=True), "the end of all processes", screen)
        assert f"exit code {code}" in screen()
        if (command, presses) == (JUBE, 1):
            assert "caraml: interrupted: submitted jobs continue" in screen()
            assert "Traceback" not in screen()
    for run in set(checkout.glob("jube/llm_run/*")) - trained:
        result = json.loads((run / "000001_benchmark" / "work" / "result.json").read_text())
        assert (result["status"], result["error"][:15]) == ("failed", "ended by signal")
