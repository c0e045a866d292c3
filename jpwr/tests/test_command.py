"""The command as a user starts it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from jpwr.tests.conftest import environment
from jpwr.writers import read_trace

ESTIMATE = ["--methods", "estimate"]


def trace_of(folder):
    return read_trace(folder / "out" / "trace.csv")


def true_energy_j(start_s: float, end_s: float) -> float:
    """Of the stand-in's device 0: the square wave's integral, as in nvml_stand_in.c."""
    period_s, half_s = 0.37, 0.185

    def since_zero(time_s: float) -> float:
        periods, phase_s = divmod(time_s, period_s)
        return periods * half_s * 600 + min(phase_s, half_s) * 500 + max(0.0, phase_s - half_s) * 100

    return since_zero(end_s) - since_zero(start_s)


def test_the_childs_exit_code_is_ours_and_the_trace_reads_back(jpwr, tmp_path):
    done = jpwr(*ESTIMATE, "--df-out", "out", "--", "bash", "-c", "sleep 0.3; exit 7")
    assert done.returncode == 7
    trace = trace_of(tmp_path)
    assert [event.name for event in trace.events] == ["command_started", "command_ended"]
    assert trace.events[1].details == {"exit_code": 7}
    assert trace.start_s <= trace.events[0].time_s < trace.events[1].time_s <= trace.end_s
    assert "ESTIMATE" in done.stderr


@pytest.mark.parametrize(("script", "code"), [("kill -9 $$", 137), ("kill -TERM $$", 143), ("true", 0)])
def test_a_child_that_a_signal_ended_is_128_and_the_signal(jpwr, script, code):
    assert jpwr(*ESTIMATE, "--", "bash", "-c", script).returncode == code


@pytest.mark.parametrize("idle", [[], ["--idle", "0.1"]])
def test_a_command_that_is_not_there_is_127(jpwr, idle):
    done = jpwr(*ESTIMATE, *idle, "--", "no-such-command")
    assert done.returncode == 127
    assert "command 'no-such-command' was not found" in done.stderr


def test_a_command_that_cannot_be_executed_is_126(jpwr, tmp_path):
    (tmp_path / "text").write_text("no program")
    done = jpwr(*ESTIMATE, "--", "./text")
    assert done.returncode == 126
    assert "cannot be executed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "nvidia", "--", "true"], "method 'nvidia' is unknown: choose from pynvml"),
        (["--methods", "pynvml", "--", "true"], "method 'pynvml' was asked for, but"),
        (["--metods", "estimate", "--", "true"], "--metods"),
        ([*ESTIMATE, "--"], "no command was given"),
        ([*ESTIMATE], "no command was given"),
        ([*ESTIMATE, "--interval", "0", "--", "true"], "--interval must be above 0"),
        ([*ESTIMATE, "--interval", "-5", "--", "true"], "--interval must be above 0"),
        ([*ESTIMATE, "--interval", "often", "--", "true"], "--interval"),
        ([*ESTIMATE, "--idle", "-1", "--", "true"], "--idle must be 0 or more"),
        ([*ESTIMATE, "--df-out", "file", "--", "true"], "cannot be written"),
    ],
)
def test_bad_input_is_125_with_one_clear_sentence(jpwr, tmp_path, arguments, message):
    (tmp_path / "file").touch()
    done = jpwr(*arguments)
    assert done.returncode == 125
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_dash_dash_of_the_commands_own_is_left_alone(jpwr):
    done = jpwr(*ESTIMATE, "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--", "-x")
    assert done.stdout.strip() == "['--', '-x']"


def test_idle_power_is_sampled_before_the_command_starts(jpwr, tmp_path):
    assert jpwr(*ESTIMATE, "--idle", "0.5", "--df-out", "out", "--", "true").returncode == 0
    trace = trace_of(tmp_path)
    started_s = trace.event_time_s("command_started")
    assert started_s - trace.start_s >= 0.5
    assert sum(time_s < started_s for time_s in trace.series()[0].times_s) >= 5


def test_a_signal_is_passed_on_and_the_trace_is_whole(tmp_path):
    command = [sys.executable, "-m", "jpwr", *ESTIMATE, "--df-out", "out", "--", "sleep", "30"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL) as process:
        wait_for_rows(tmp_path)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
    assert trace_of(tmp_path).events[-1].details == {"exit_code": 143}


def test_a_trace_reads_back_after_jpwr_was_killed(tmp_path):
    command = [sys.executable, "-m", "jpwr", *ESTIMATE, "--df-out", "out", "--", "sleep", "30"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        wait_for_rows(tmp_path)
        process.kill()
        assert process.wait(timeout=20) == -9
        os.killpg(process.pid, signal.SIGKILL)  # the child lives on
    assert trace_of(tmp_path).series()[0].samples >= 3


def wait_for_rows(folder, rows=3):
    for _ in range(200):
        path = folder / "out" / "trace.csv"
        if path.exists() and path.read_text().count("\n") >= rows + 3:
            return
        time.sleep(0.05)
    raise AssertionError("no rows came")


def test_nvml_is_read_and_its_energy_is_the_true_one(jpwr, tmp_path, nvml_folder):
    done = jpwr(
        *("--methods", "pynvml", "--interval", "10", "--df-out", "out", "--", "sleep", "2"),
        LD_LIBRARY_PATH=str(nvml_folder),
    )
    assert done.returncode == 0, done.stderr
    trace = trace_of(tmp_path)
    assert [info.device_id for info in trace.channels] == ["GPU-0", "GPU-1"]
    start_s, end_s = trace.start_s + 0.2, trace.end_s - 0.2
    for factor, estimate in enumerate(trace.energies(start_s, end_s), 1):
        expected_j = factor * true_energy_j(start_s, end_s)
        assert estimate.method == "counter"
        assert estimate.counter_j == pytest.approx(expected_j, rel=0.01)
        assert estimate.integral_j == pytest.approx(expected_j, rel=0.03)


def test_a_gpu_without_a_counter_has_power_alone(jpwr, tmp_path, nvml_folder):
    variables = {"LD_LIBRARY_PATH": str(nvml_folder), "STAND_IN_FAULT": "no-counter", "STAND_IN_DEVICES": "1"}
    assert jpwr("--methods", "auto", "--df-out", "out", "--", "sleep", "0.3", **variables).returncode == 0
    [series] = trace_of(tmp_path).series()
    assert series.energy_j is None
    assert set(series.power_w) <= {100.0, 500.0}


def test_a_gpu_that_vanishes_does_not_end_the_run(jpwr, tmp_path, nvml_folder):
    variables = {"LD_LIBRARY_PATH": str(nvml_folder), "STAND_IN_FAULT": "vanish", "STAND_IN_FAULT_S": "0.4"}
    done = jpwr("--methods", "pynvml", "--df-out", "out", "--", "sleep", "1", **variables)
    assert done.returncode == 0
    assert done.stderr.count("pynvml:0: NVML: GPU is lost") == 1
    for series in trace_of(tmp_path).series():
        assert series.samples >= 3
        assert series.missing >= 3


@pytest.mark.parametrize(
    ("variables", "message"),
    [({"STAND_IN_FAULT": "no-driver"}, "Driver Not Loaded"), ({"STAND_IN_DEVICES": "0"}, "it shows no GPU")],
)
def test_a_driver_that_cannot_be_used_says_why(jpwr, nvml_folder, variables, message):
    done = jpwr("--methods", "pynvml", "--", "true", LD_LIBRARY_PATH=str(nvml_folder), **variables)
    assert done.returncode == 125
    assert message in done.stderr


def test_the_command_loads_the_standard_library_alone(tmp_path):
    script = (
        "import sys; before = set(sys.modules); import jpwr.cli;"
        "import jpwr.backends.rapl, jpwr.backends.estimate, jpwr.backends.nvml;"
        "print(*(name for name in sys.modules if name not in before))"
    )
    # Isolated, and without the site's packages: whatever is not the standard library's cannot be found.
    path = f"import sys; sys.path.insert(0, {environment()['PYTHONPATH']!r});"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", path + script], capture_output=True, text=True, check=True)
    tops = {name.split(".")[0] for name in done.stdout.split()}
    assert tops <= {"jpwr", *sys.stdlib_module_names}


def interpreters() -> list[str]:
    """Every Python from 3.8 on that is found and starts."""
    found = [shutil.which(f"python3.{minor}") for minor in range(8, 16)]
    return [path for path in found if path and not subprocess.run([path, "-c", ""], capture_output=True).returncode]


@pytest.mark.parametrize("interpreter", [sys.executable, *interpreters()])
def test_nothing_but_an_interpreter_is_needed(interpreter, tmp_path):
    # From PYTHONPATH alone, with no package installed, as inside a vendor's container.
    command = [interpreter, "-S", "-m", "jpwr", "--methods", "estimate", "--df-out", "out", "--", "sleep", "0.3"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert trace_of(tmp_path).series()[0].samples >= 3


def test_an_interval_that_is_faster_than_the_sensor_is_told(jpwr, tmp_path):
    program = tmp_path / "ipmitool"
    program.write_text("#!/bin/sh\necho ' Instantaneous power reading:  220 Watts'\n")
    program.chmod(0o755)
    done = jpwr("--methods", "ipmi", "--interval", "50", "--", "sleep", "0.3", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode == 0
    assert "ipmi:node has a new value every 1 s and is read at that rate" in done.stderr
