"""`jpwr list`, `jpwr read` and `jpwr check`, and the help."""

from __future__ import annotations

import json

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.errors import JpwrError
from jpwr.tests.conftest import needed
from jpwr.tools import show_trace
from jpwr.writers import CsvWriter


def test_the_help_fits_a_terminal_and_tells_of_every_exit_code(jpwr):
    done = jpwr("--help", COLUMNS="80")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for word in ("jpwr list", "jpwr read", "jpwr check", "125", "126", "127", "128+n"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["read"], "jpwr: the following arguments are required: TRACE; 'jpwr read --help' lists the options"),
        (["check", "a", "b"], "jpwr: unrecognized arguments: b; 'jpwr --help' lists the options"),
    ],
)
def test_a_tool_that_is_called_wrongly_is_125_with_one_clear_sentence(jpwr, arguments, message):
    done = jpwr(*arguments)
    assert (done.returncode, done.stderr.splitlines()) == (125, [message])


def test_the_sensors_of_a_machine_are_listed_with_their_pace(jpwr, nvml_folder):
    done = jpwr("list", LD_LIBRARY_PATH=str(nvml_folder), STAND_IN_SHAPE="constant")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("pynvml:0: ")  # what is there comes first
    assert any(line.startswith("pynvml:0: device, 300.0 W, update period not known, energy counter") for line in lines)
    assert any(line.startswith("estimate:cpu: cpu, ") and "only when asked for by name" in line for line in lines)
    assert any(line.startswith(("rapl: not here: ", "rapl:package")) for line in lines)


def write_trace(path, seconds):
    """A made-up trace of 300 W with ten rows a second, all of it the command's."""
    info = ChannelInfo("pynvml:0", Scope.DEVICE, "a board", has_counter=True, counter_resolution_j=0.001)
    with CsvWriter(path, [info], {"interval_s": 0.1, "random_phase": True}) as writer:
        writer.append(0.0, [300.0], [0.0])
        writer.event("command_started", 0.0)
        for row in range(1, 10 * seconds + 1):
            writer.append(row / 10, [300.0], [30.0 * row])
        writer.event("command_ended", float(seconds), exit_code=0)


def test_an_old_trace_is_summarised_and_plotted(jpwr, tmp_path):
    needed("matplotlib")
    write_trace(tmp_path / "trace.csv", seconds=10)
    done = jpwr("read", "trace.csv")
    assert done.returncode == 0
    assert "pynvml:0" in done.stdout
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


def test_an_old_trace_is_told_as_json(tmp_path, capsys):
    write_trace(tmp_path / "trace.csv", seconds=10)
    assert show_trace(tmp_path / "trace.csv", as_json=True) == 0
    [channel] = json.loads(capsys.readouterr().out)["channels"]
    assert channel["avg_power_w"] == pytest.approx(300)
    assert channel["energy_wh"] == pytest.approx(3000 / 3600)


@pytest.mark.parametrize("plot", ["no/folder.png", "trace.unknown"])
def test_a_plot_that_cannot_be_written_is_said_after_the_summary(tmp_path, capsys, plot):
    needed("matplotlib")
    write_trace(tmp_path / "trace.csv", seconds=1)
    with pytest.raises(JpwrError, match=r"the plot cannot be written to .*: choose another file with --plot"):
        show_trace(tmp_path / "trace.csv", picture=tmp_path / plot)
    assert "pynvml:0" in capsys.readouterr().out


def test_a_trace_is_checked_against_the_rules(jpwr, tmp_path):
    write_trace(tmp_path / "long.csv", seconds=10)
    done = jpwr("check", "long.csv")
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    write_trace(tmp_path / "short.csv", seconds=5)
    done = jpwr("check", "short.csv")
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line.startswith("FAIL")] == [
        "FAIL  pynvml:0: 51 samples, 60 needed"
    ]


def test_a_machine_without_sensors_is_told_what_is_left(jpwr, tmp_path):
    done = jpwr("list", PATH="/usr/bin:/bin", ROCM_PATH=str(tmp_path))
    if done.returncode == 0:  # this machine has one
        assert "no power sensor" not in done.stderr
    else:
        assert done.stderr.startswith("jpwr: no power sensor is here; '--methods estimate' ")


def file_with(text):
    return lambda path: path.write_text(text)


@pytest.mark.parametrize("tool", ["read", "check"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "cannot be read (No such file or directory)"),
        (lambda path: path.mkdir(), "is a folder: give the trace in it, such as x.csv/trace.csv"),
        (file_with(""), "is not a trace of jpwr: it is empty"),
        (file_with("hello\n"), "is not a trace of jpwr: it has no first line that begins with '# jpwr-trace'"),
        (file_with('# jpwr-trace {"format": 1, "channels": []}\ntime_s\n1.0\n'), "x.csv has no channel"),
        (lambda path: path.write_text('# jpwr-trace {"format": 1}\n', encoding="utf-16"), "is not a trace of jpwr"),
    ],
)
def test_a_trace_that_is_none_is_one_clear_sentence(jpwr, tmp_path, tool, make, message):
    make(tmp_path / "x.csv")
    done = jpwr(tool, "x.csv")
    assert done.returncode == 125
    [sentence] = done.stderr.splitlines()
    assert sentence.startswith("jpwr: x.csv ")
    assert message in sentence
