"""Signals at every moment of a run, and all the ways to end."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from jpwr.tests.conftest import DEADLINE_S, environment, rows_of, trace_of, wait_until
from tests.needs import need_real_processor

# The command with a signal that arrives at a moment of a test's choice: `arrive` returns when it has been handled.
PATCHED = """
import os, signal, sys
import jpwr.cli, jpwr.__main__

def arrive():
    os.kill(os.getpid(), signal.{name})

{patch}
sys.exit(jpwr.cli.main())
"""
BEFORE_THE_CHILD = "spawn = os.posix_spawnp; os.posix_spawnp = lambda *a, **k: [arrive(), spawn(*a, **k)][1]"
AFTER_THE_CHILD_HAS_BEGUN = "spawn = os.posix_spawnp; os.posix_spawnp = lambda *a, **k: [spawn(*a, **k), arrive()][0]"
AT_THE_REPORT = """
report = jpwr.cli._report
jpwr.cli._report = lambda *arguments: [arrive(), report(*arguments)]
"""


@pytest.fixture
def start(tmp_path):
    """Start the command under the sampler, in a session of its own that does not outlive the test."""
    started = []

    def run(*command, flags=(), patch="", name="", under=(), stdin=None, **variables):
        program = ["-c", PATCHED.format(patch=patch, name=name)] if patch else ["-m", "jpwr"]
        process = subprocess.Popen(
            [*under, sys.executable, *program, "--methods", "estimate", "--df-out", "out", *flags, "--", *command],
            cwd=tmp_path,
            env=environment(**variables),
            stdin=stdin,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=not under,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        for one in [*descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.wait()
        process.stderr.close()


def descendants(number):
    """Processes under one, the youngest first."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [number]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[:0:-1]


def exit_code_of(process):
    """The exit code, and what was said."""
    said = process.communicate(timeout=DEADLINE_S)[1]
    return process.returncode, said


def wait_for(path):
    wait_until(path.exists, str(path))


@pytest.mark.parametrize(
    ("patch", "name"),
    [
        (BEFORE_THE_CHILD, "SIGTERM"),
        (BEFORE_THE_CHILD, "SIGUSR1"),
        (AFTER_THE_CHILD_HAS_BEGUN, "SIGTERM"),
        (AFTER_THE_CHILD_HAS_BEGUN, "SIGHUP"),
        (AFTER_THE_CHILD_HAS_BEGUN, "SIGINT"),
        (AFTER_THE_CHILD_HAS_BEGUN, "SIGUSR1"),
    ],
)
def test_a_signal_that_comes_while_the_child_is_made_reaches_it(start, tmp_path, patch, name):
    process = start("sleep", "1000", patch=patch, name=name)
    assert exit_code_of(process)[0] == 128 + getattr(signal, name)
    assert trace_of(tmp_path).events[-1].name == "command_ended"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_in_the_idle_phase_keeps_the_command_from_starting(start, tmp_path, name):
    process = start("touch", "ran", flags=("--idle", "1000"))
    wait_until(lambda: rows_of(tmp_path / "out" / "trace.csv") >= 3, "the third row")
    process.send_signal(getattr(signal, name))
    code, said = exit_code_of(process)
    assert code == 128 + getattr(signal, name)
    assert f"{name} arrived before the command's start: the command is not started" in said
    assert not (tmp_path / "ran").exists()
    assert trace_of(tmp_path).events == []
    assert trace_of(tmp_path).series()[0].samples >= 3


def test_a_signal_that_does_not_ask_to_end_waits_for_the_command_and_shortens_no_idle_phase(start, tmp_path):
    process = start("sleep", "1000", flags=("--idle", "0.5"))
    wait_until(lambda: rows_of(tmp_path / "out" / "trace.csv"), "the first row")
    process.send_signal(signal.SIGUSR1)
    assert exit_code_of(process)[0] == 128 + signal.SIGUSR1
    assert trace_of(tmp_path).event_time_s("command_started") - trace_of(tmp_path).start_s >= 0.5


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=lambda send: send.__name__)
def test_two_signals_that_come_together_ask_once_to_end(start, tmp_path, send):
    process = start(sys.executable, "-c", NOTES)
    wait_for(tmp_path / "up")
    os.kill(process.pid, signal.SIGSTOP)  # so that both are there when it goes on, however busy the machine is
    for name in ("SIGTERM", "SIGUSR1", "SIGHUP"):  # SIGUSR1 is told of between them, and weighed for a while
        send(process.pid, getattr(signal, name))
    os.kill(process.pid, signal.SIGCONT)
    wait_until(lambda: {"SIGTERM", "SIGUSR1", "SIGHUP"} <= set(lines_in(tmp_path / "had")), "all signals")
    os.kill(process.pid, signal.SIGUSR2)
    assert exit_code_of(process)[0] == 7
    assert sorted(lines_in(tmp_path / "had")) == ["SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_after_the_commands_end_changes_nothing(start, tmp_path, name):
    assert exit_code_of(start("bash", "-c", "exit 3", patch=AT_THE_REPORT, name=name))[0] == 3
    assert len(list((tmp_path / "out").glob("energy.*.csv"))) == 1


def test_a_ctrl_c_ends_a_library_that_does_not_answer(start, nvml_folder):
    need_real_processor("the library takes more than 3 s to load under qemu-user")
    variables = {"LD_LIBRARY_PATH": str(nvml_folder), "STAND_IN_FAULT": "hang"}
    process = start("true", flags=("--methods", "pynvml"), **variables)
    wait_until(lambda: "libnvidia-ml" in read("/proc", process.pid, "maps"), "the library's loading")
    process.send_signal(signal.SIGINT)
    code, said = exit_code_of(process)
    assert code == -signal.SIGINT
    assert said == ""


# It notes each signal that it has, and ends at SIGUSR2.
NOTES = """
import os, signal, time
def note(number, frame):
    with open("had", "a") as file:
        file.write(signal.Signals(number).name + chr(10))
    if number == signal.SIGUSR2:
        os._exit(7)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, note)
open("up", "w").close()
while True:
    time.sleep(0.01)  # in signal.pause() one that came just before would be waited for
"""


def lines_in(path):
    return path.read_text().splitlines() if path.exists() else []


def had_once(folder, process, name):
    """Whether the command had that signal, and no other, once it has had a last one."""
    wait_until(lambda: name in lines_in(folder / "had"), name)
    os.kill(process, signal.SIGUSR2)
    wait_until(lambda: "SIGUSR2" in lines_in(folder / "had"), "SIGUSR2")
    return lines_in(folder / "had") == [name, "SIGUSR2"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1"])
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=lambda send: send.__name__)
def test_a_signal_reaches_the_command_once(start, tmp_path, send, name):
    process = start(sys.executable, "-c", NOTES)
    wait_for(tmp_path / "up")
    send(process.pid, getattr(signal, name))
    assert had_once(tmp_path, process.pid, name)
    assert exit_code_of(process)[0] == 7
    assert trace_of(tmp_path).events[-1].details == {"exit_code": 7}


@pytest.fixture
def terminal():
    """Both ends of a terminal: the keys, and what programs have as stdin."""
    keys, stdin = pty.openpty()
    yield keys, stdin
    os.close(keys)
    os.close(stdin)


def test_a_ctrl_c_at_a_terminal_reaches_the_command_once(start, tmp_path, terminal):
    keys, stdin = terminal
    process = start(sys.executable, "-c", NOTES, under=("setsid", "--ctty"), stdin=stdin)
    wait_for(tmp_path / "up")
    os.write(keys, b"\x03")
    assert had_once(tmp_path, process.pid, "SIGINT")
    assert exit_code_of(process)[0] == 7


def test_a_command_reads_the_terminal(start, tmp_path, terminal):
    keys, stdin = terminal
    process = start("bash", "-c", ": >up; read line; echo $line >had", under=("setsid", "--ctty"), stdin=stdin)
    wait_for(tmp_path / "up")
    os.write(keys, b"a line\n")
    assert exit_code_of(process)[0] == 0
    assert lines_in(tmp_path / "had") == ["a line"]


def test_where_another_process_samples_the_command_has_the_signals_that_a_shell_would_give_it(start):
    ends = "yes | head -1 >ended; exit ${PIPESTATUS[0]}"
    process = start("bash", "-c", ends, SLURM_LOCALID="1", flags=("--use-mpi",))
    assert exit_code_of(process)[0] == 128 + signal.SIGPIPE


def read(*parts):
    with open("/".join(map(str, parts))) as file:
        return file.read()


def test_processes_that_a_command_leaves_behind_are_not_waited_for(start, tmp_path):
    process = start("bash", "-c", "(exec sleep 1000 >/dev/null 2>&1) & echo $! > left; exit 3")
    assert exit_code_of(process)[0] == 3
    os.kill(int((tmp_path / "left").read_text()), 0)  # it is still there


# Becomes a subreaper (prctl(2)), which inherits orphans as process 1 does, and runs a command that leaves two behind.
REAPER = """
import ctypes, os, sys
from jpwr.process import child
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
child.INIT = os.getpid()
one = child.Child(sys.argv[1:], print)
one.take_signals()
sys.exit(one.run(dict(os.environ)))
"""
# The orphans end at once; the command ends well when neither is left, not even as a zombie.
LEAVES_ORPHANS = """
import os, signal, subprocess, sys, time
leave = "import subprocess, sys; print(subprocess.Popen(['true'], start_new_session=True).pid)"
orphans = [int(subprocess.check_output([sys.executable, "-c", leave])) for _ in range(2)]
signal.alarm(60)
while any(os.path.exists(f"/proc/{pid}") for pid in orphans):
    time.sleep(0.01)
sys.exit(7)
"""


def test_process_1_reaps_what_it_inherits():
    command = [sys.executable, "-c", REAPER, sys.executable, "-c", LEAVES_ORPHANS]
    assert subprocess.run(command, timeout=120).returncode == 7
