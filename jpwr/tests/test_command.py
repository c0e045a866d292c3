"""The command as a user starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from jpwr import cli
from jpwr.report import frames
from jpwr.tests.conftest import (
    DEADLINE_S,
    NO_ERRORS,
    REPOSITORY,
    environment,
    install_method,
    run,
    trace_of,
)
from jpwr.tests.loads import square
from tests.needs import need_real_processor

ESTIMATE = ["--methods", "estimate"]
SUFFIXES = ("a/b", "a\nb", "%q{NOPE}", "a%q{HOME}")


def simulate(method, interval_s, end_s, **variables):
    """The summary of a run on the stand-in's own clock, from second 1000 on."""
    done = run(sys.executable, "-m", "jpwr.tests.simulate", method, str(interval_s), str(end_s), **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_childs_exit_code_is_ours_and_the_trace_reads_back(jpwr, tmp_path):
    done = jpwr(*ESTIMATE, "--df-out", "out", "--", "bash", "-c", "exit 7")
    assert done.returncode == 7
    trace = trace_of(tmp_path)
    assert [event.name for event in trace.events] == ["command_started", "command_ended"]
    assert trace.events[1].details == {"exit_code": 7}
    assert trace.start_s <= trace.events[0].time_s < trace.events[1].time_s <= trace.end_s
    assert "ESTIMATE" in done.stderr


@pytest.mark.parametrize("variables", [{}, {"SLURM_LOCALID": "1"}], ids=["sampled", "beside another"])
@pytest.mark.parametrize(
    ("name", "code"),
    [("no-such-command", 127), ("./no-such-command", 127), ("./text", 126), ("text", 126), ("./lost", 127)],
)
def test_a_command_that_cannot_be_executed_ends_as_in_a_shell(jpwr, tmp_path, name, code, variables):
    need_real_processor(NO_ERRORS)
    (tmp_path / "text").write_text("no program")
    (tmp_path / "lost").write_text("#!/no/such/interpreter\n")
    (tmp_path / "lost").chmod(0o755)
    done = jpwr(*ESTIMATE, "--", name, **variables, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (code, "")
    assert f"command '{name}' " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--methods", "nvidia", "--", "true"],
        ["--methods", "gc", "--", "true"],
        ["--metods", "estimate", "--", "true"],
        [*ESTIMATE],
        [*ESTIMATE, "--"],
        [*ESTIMATE, "--", ""],
        *([*ESTIMATE, "--interval", ms, "--", "true"] for ms in ("0.99", "1e300", "nan", "often")),
        [*ESTIMATE, "--idle", "-1", "--", "true"],
        *([*ESTIMATE, "--df-out", "o", "--df-suffix", suffix, "--", "true"] for suffix in SUFFIXES),
        *([*ESTIMATE, "--json-out", path, "--", "true"] for path in ("none/x", ".", "file/x", "x" * 256)),
        [*ESTIMATE, "--df-out", "file", "--", "true"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_bad_input_is_125_with_one_sentence(jpwr, tmp_path, arguments):
    (tmp_path / "file").touch()
    done = jpwr(*arguments)
    assert done.returncode == 125
    assert done.stderr.splitlines()[-1].startswith("jpwr: ")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# The command lines in the README of jpwr 0.0.10, without `mpirun -n 2`.
OLD_LINES = {
    "jpwr --methods rocm --df-out energy_meas --df-filetype csv stress-ng --gpu 8 -t 5": {"methods": ["rocm"]},
    "jpwr --methods pynvml gh --df-out energy_meas/ --interval 1000 stress-ng --cpu 24 -t 10": {"interval": 1000},
    "jpwr --methods pynvml --df-out energy_meas --use-mpi -- stress-ng --gpu 2": {"use_mpi": True},
    "jpwr --methods pynvml --df-out energy_meas --use-mpi --mpi-ranks 0 -- stress-ng --gpu 2": {"mpi_ranks": [0]},
}


@pytest.mark.parametrize(("line", "known"), OLD_LINES.items())
def test_old_command_lines_are_understood(line, known):
    _, *arguments = line.split()
    options = vars(cli._parse(arguments))
    assert (options["df_out"].name, options["command"][0]) == ("energy_meas", "stress-ng")
    assert {name: options[name] for name in known} == known


def test_a_dash_dash_of_the_commands_own_is_left_alone(jpwr):
    done = jpwr(*ESTIMATE, "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--", "-x")
    assert done.stdout.strip() == "['--', '-x']"


def test_what_a_shell_has_opened_for_the_command_stays_open(tmp_path):
    script = f"{sys.executable} -m jpwr --methods estimate -- cat <(echo from a pipe) /dev/fd/7 7<<<from-a-descriptor"
    done = run("bash", "-c", script, cwd=tmp_path)
    assert done.stdout == "from a pipe\nfrom-a-descriptor\n"
    assert done.returncode == 0


def test_energy_by_nvml_is_the_true_one(nvml_folder):
    summary = simulate("pynvml", 0.01, 1002.0, LD_LIBRARY_PATH=str(nvml_folder), STAND_IN_INSTANT="1")
    _, energy_j = square(0.37)
    for factor, channel in enumerate(summary["channels"], 1):
        expected_wh = factor * (energy_j(1002.0) - energy_j(1000.0)) / 3600
        assert channel["method"] == "counter"
        assert abs(channel["counter_wh"] - expected_wh) <= channel["uncertainty_wh"] < 0.03 * expected_wh
        assert abs(channel["integral_wh"] - expected_wh) <= channel["integral_uncertainty_wh"] < 0.5 * expected_wh


def test_a_summary_to_stdout_comes_after_what_the_command_wrote_there(tmp_path):
    script = f"{sys.executable} -m jpwr --methods estimate --json-out /dev/stdout -- echo hello >both"
    assert run("bash", "-c", script, cwd=tmp_path).returncode == 0
    first, second = (tmp_path / "both").read_text().splitlines()
    assert first == "hello"
    assert json.loads(second)["exit_code"] == 0


TABLES = """\
Measuring Energy while executing ['echo', 'mine']
Power data:
timestamps estimate:cpu
Energy data:
estimate:cpu NUMBER
dtype: float64
"""


@pytest.mark.parametrize(
    ("flags", "variables", "more"),
    [
        ([], {}, ""),
        ([], {"JPWR_TABLES": "0"}, ""),
        ([], {"JPWR_TABLES": "1"}, TABLES),
        (["--tables", "--json"], {}, TABLES),
    ],
)
def test_the_tables_of_the_older_jpwr_are_on_standard_output_if_asked_for(jpwr, flags, variables, more):
    done = jpwr(*ESTIMATE, *flags, "--", "echo", "mine", **variables)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    said = re.sub(r"\d[\d.e-]*|NaN", "NUMBER", "\n".join(line for line in lines if not re.match(r"\d+ ", line)) + "\n")
    assert (said.replace("floatNUMBER", "float64"), done.returncode) == ("mine\n" + more, 0)


def test_of_a_long_table_both_ends_are_printed(monkeypatch):
    rows = "".join(f"{number},{number / 10},\n" for number in range(61))
    monkeypatch.setattr(frames, "_tables", lambda _: {"power": lambda file: file.write(f",timestamps,x\n{rows}")})
    title, header, *lines = frames.printed_lines(None)
    assert (title, header.split()) == ("Power data:", ["timestamps", "x"])
    assert [line.split()[0] for line in lines[:-2]] == [*"01234", "..", *map(str, range(56, 61))]
    assert (lines[0].split(), lines[-2:]) == (["0", "0.0", "NaN"], ["", "[61 rows x 2 columns]"])


@pytest.mark.parametrize(
    ("script", "is_readable"),
    [("rm out/trace.csv", True), (": >out/trace.csv", False), ("cp out/trace.csv x; mv x out/trace.csv", True)],
)
def test_a_trace_that_the_command_takes_away_is_reported(jpwr, tmp_path, script, is_readable):
    done = jpwr(*ESTIMATE, "--df-out", "out", "--", "bash", "-c", f"{script}; exit 5")
    assert done.returncode == 5
    assert done.stderr.count("the trace out/trace.csv was removed or replaced during the run") == 1
    # A file without a name is still there until the end.
    assert bool(list((tmp_path / "out").glob("energy.*.csv"))) == ("channel " in done.stderr) == is_readable
    assert ("in the summary: " in done.stderr) != is_readable


def test_without_a_trace_samples_are_in_a_file_that_a_killed_sampler_leaves_nowhere(tmp_path):
    script = "ls -l /proc/$PPID/fd; kill -9 $PPID"
    command = [sys.executable, "-m", "jpwr", *ESTIMATE, "--", "bash", "-c", script]
    done = subprocess.run(command, env=environment(TMPDIR=str(tmp_path)), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    kept = [line for line in done.stdout.splitlines() if str(tmp_path) in line and line.endswith(" (deleted)")]
    assert len(kept) == 1
    assert len(list(tmp_path.iterdir())) == 1  # the marks, which the command may still write


def test_the_exit_code_is_the_commands_though_who_started_jpwr_ignores_the_end_of_children(tmp_path):
    ignoring = ["env", "--ignore-signal=CHLD", sys.executable, "-m", "jpwr", *ESTIMATE, "--"]
    assert run(*ignoring, "bash", "-c", "exit 5", cwd=tmp_path).returncode == 5
    assert run(*ignoring, "bash", "-c", "kill -9 $$", cwd=tmp_path).returncode == 137


def test_tables_that_cannot_be_written_are_reported_and_change_no_exit_code(jpwr, tmp_path):
    done = jpwr(*ESTIMATE, "--df-out", "out", "--", "bash", "-c", "mv out away; exit 5")
    assert done.returncode == 5
    assert "tables could not be written: No such file or directory: " in done.stderr
    assert "estimate:cpu" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("at_the_end", "words"),
    [("1 / 0", "ZeroDivisionError"), ("exit(3)", "SystemExit: 3"), (f"time.sleep({2 * DEADLINE_S})", "odd:0")],
)
def test_a_back_end_that_fails_or_hangs_at_its_end_changes_no_exit_code(tmp_path, at_the_end, words):
    channel = "return [Channel(ChannelInfo('odd:0', Scope.NODE, 'a meter'), lambda: 42.0)]"
    install_method(tmp_path, "odd", f"import time\nstack.callback(lambda: {at_the_end})\n{channel}")
    command = [sys.executable, "-m", "jpwr", "--methods", "odd", "--", "bash", "-c", "exit 5"]
    done = run(*command, cwd=tmp_path, PYTHONPATH=f"{REPOSITORY}:{tmp_path}")
    assert done.returncode == 5
    assert words in done.stderr
    assert "Traceback" not in done.stderr
