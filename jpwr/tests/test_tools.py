"""`jpwr list` and `jpwr read`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.report.tools import show_trace
from jpwr.tests.conftest import DEADLINE_S, REPOSITORY, install_method, run
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter


def test_the_sensors_of_a_machine_are_listed_with_their_pace(jpwr, nvml_folder):
    done = jpwr("list", LD_LIBRARY_PATH=str(nvml_folder), STAND_IN_SHAPE="constant")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("pynvml:0: ")  # what is there comes first
    assert any(line.startswith("pynvml:0: device, 300.0 W, refresh interval unknown, energy counter") for line in lines)
    assert any(line.startswith("estimate:cpu: cpu, ") and "used only by name" in line for line in lines)
    assert any(line.startswith(("rapl: unavailable: ", "rapl:package")) for line in lines)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        ("lambda: {}['W']", "cannot be read (KeyError: 'W')"),
        ("lambda: sys.exit(3)", "cannot be read (SystemExit: 3)"),
        ("lambda: '12.5'", "12.5 W"),
        (f"lambda: time.sleep({2 * DEADLINE_S})", "cannot be read (it did not answer within 5 s)"),
    ],
)
def test_a_sensor_that_cannot_be_read_ends_no_list(tmp_path, read, words):
    channel = f"return [Channel(ChannelInfo('odd:0', Scope.NODE, 'a meter'), {read})]"
    install_method(tmp_path, "odd", f"import sys, time\n{channel}")
    done = run(sys.executable, "-m", "jpwr", "list", cwd=tmp_path, PYTHONPATH=f"{REPOSITORY}:{tmp_path}")
    assert done.returncode == 0, done.stderr
    assert f"odd:0: node, {words}" in done.stdout
    assert "pynvml: unavailable: " in done.stdout


def write_trace(path, seconds):
    """A made-up trace of 300 W with ten rows a second, all of it the command's."""
    info = ChannelInfo("pynvml:0", Scope.DEVICE, "a board", has_counter=True, counter_resolution_j=0.001)
    with CsvWriter(path, [info], {"interval_s": 0.1, "random_phase": True}) as writer:
        writer.extend([Row(0.0, [300.0], [0.0])])
        writer.event("command_started", 0.0)
        for row in range(1, 10 * seconds + 1):
            writer.extend([Row(row / 10, [300.0], [30.0 * row])])
        writer.event("command_ended", float(seconds), exit_code=0)


def test_an_old_trace_is_reported_as_json(tmp_path, capsys):
    write_trace(tmp_path / "trace.csv", seconds=10)
    assert show_trace(tmp_path / "trace.csv", as_json=True) == 0
    [channel] = json.loads(capsys.readouterr().out)["channels"]
    assert channel["avg_power_w"] == pytest.approx(300, rel=2e-3)  # of a counter that documents no refresh interval
    assert channel["energy_wh"] == pytest.approx(3000 / 3600, rel=2e-3)


@pytest.mark.parametrize("tool", ["read", "list"])
def test_a_stdout_that_is_full_is_one_clear_sentence(tmp_path, tool):
    write_trace(tmp_path / "trace.csv", seconds=10)
    trace = "" if tool == "list" else "trace.csv"
    done = run("bash", "-c", f"{sys.executable} -m jpwr {tool} {trace} >/dev/full", cwd=tmp_path)
    assert done.returncode == 125
    assert "jpwr: stdout cannot be written (No space left on device)" in done.stderr
    assert "Traceback" not in done.stderr


def file_with(text):
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        Path.mkdir,
        file_with(""),
        file_with("hello\n"),
        file_with("\0\1\n\n\n"),
        lambda path: path.write_text('# jpwr-trace {"format": 1}\n', encoding="utf-16"),
    ],
)
def test_a_trace_that_is_none_is_one_clear_sentence(jpwr, tmp_path, make):
    make(tmp_path / "x.csv")
    done = jpwr("read", "x.csv")
    assert done.returncode == 125
    [sentence] = done.stderr.splitlines()
    assert sentence.startswith("jpwr: x.csv ")
