"""Regions, counters that lie, devices that hang, and files of other shapes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from jpwr.tests.conftest import REPOSITORY, environment, install_method, run, trace_of, wait_until
from jpwr.trace.trace import Event
from jpwr.trace.writers import EVENT, read_trace
from tests.needs import package

CONSTANT = {"STAND_IN_SHAPE": "constant", "STAND_IN_DEVICES": "1"}


def summary_of(done):
    """The summary that --json prints, and the words before it."""
    *words, line = done.stderr.splitlines()
    return json.loads(line), words


@pytest.fixture
def measure(jpwr, nvml_folder):
    """Run a script under the sampler on the stand-in; returns the summary."""

    def measured(script, *flags, **variables):
        done = jpwr(
            *("--methods", "pynvml", "--json", "--df-out", "out", *flags, "--", "bash", "-c", script),
            **{"LD_LIBRARY_PATH": str(nvml_folder), **CONSTANT, **variables},
        )
        assert done.returncode == 0, done.stderr
        return summary_of(done)

    return measured


def region(summary, name):
    [found] = [region for region in summary["regions"] if region["region"] == name]
    return found


def entries_of(folder):
    """Times of rows, and events, in the order in which they were written."""
    _, _, *lines = (folder / "out" / "trace.csv").read_text().splitlines()
    events = iter(trace_of(folder).events)
    return [next(events) if line.startswith(EVENT) else float(line.partition(",")[0]) for line in lines]


def test_a_line_in_the_file_of_marks_makes_a_region_in_any_language(measure, tmp_path):
    # Before each mark there are five rows, however long that takes.
    script = """
count=0
has_marks() { (($(grep -c '^# event .*region_' out/trace.csv) == $1)); }
mark() { rows 5; echo "$*" >> $JPWR_MARKS; wait_until has_marks $((++count)); }
mark begin outer
for i in 1 2; do mark begin my step; mark end my step; done
mark end outer
"""
    summary, words = measure(script, "--interval", "10")
    # The rows between two marks; a mark's moment lies between the fifth row before it and the second after it.
    rows_s, moments_s = [[]], []
    for entry in entries_of(tmp_path):
        if not isinstance(entry, Event):
            rows_s[-1].append(entry)
        elif entry.name.startswith("region_"):
            moments_s.append(entry.time_s)
            rows_s.append([])
    assert all(before[4] <= moment_s <= after[1] for before, moment_s, after in zip(rows_s, moments_s, rows_s[1:]))
    trace = trace_of(tmp_path)
    assert [marked.name for marked in trace.regions()] == ["my step", "my step", "outer"]
    outer, step = region(summary, "outer"), region(summary, "my step")
    assert (outer["count"], step["count"]) == (1, 2)
    assert step["duration_s"] == pytest.approx(sum(end_s - start_s for _, start_s, end_s in trace.regions()[:2]))
    [channel] = step["channels"]
    assert channel["integral_wh"] == pytest.approx(300 * step["duration_s"] / 3600)
    assert channel["energy_wh"] == channel[f"{channel['method']}_wh"]
    assert channel["samples"] >= 10
    assert outer["channels"][0]["integral_wh"] > channel["integral_wh"]
    assert words == []


def test_a_counter_that_falls_is_not_used_and_that_is_reported(measure, tmp_path):
    fault = {"STAND_IN_FAULT": "counter-reset", "STAND_IN_FAULT_FILE": "lies"}
    summary, _ = measure("rows 3; touch lies; rows 3", "--interval", "20", **fault)
    started, ended = (event.time_s for event in trace_of(tmp_path).events if event.name.startswith("command"))
    [channel] = summary["channels"]
    assert channel["method"] == "counter+integral"
    assert channel["reason"] == "the counter fell"
    assert channel["energy_wh"] == pytest.approx(300 * (ended - started) / 3600, abs=channel["uncertainty_wh"])
    assert any("the counter fell" in note for note in summary["notes"])


def test_a_device_that_hangs_from_the_start_holds_up_no_other(nvml_folder):
    code = "import sys, jpwr.backends.parts as parts, jpwr.cli; parts.ANSWERS_S = 0.3; sys.exit(jpwr.cli.main())"
    variables = {"LD_LIBRARY_PATH": str(nvml_folder), "STAND_IN_FAULT": "hang", "STAND_IN_FAULT_DEVICE": "1"}
    done = run(sys.executable, "-c", code, "--methods", "pynvml", "--", "sh", "-c", "echo ran; exit 4", **variables)
    assert (done.returncode, done.stdout) == (4, "ran\n")
    assert "pynvml:1: cannot be read (it did not answer within 0.3 s)" in done.stderr


def test_a_sensor_that_hangs_where_a_window_begins_keeps_no_command_from_running(tmp_path):
    install_method(
        tmp_path,
        "sleepy",
        "import threading, time\n"
        "def read():\n"
        "    if threading.current_thread().name == 'jpwr-within': time.sleep(86399)\n"
        "    return 300.0\n"
        "return [Channel(ChannelInfo('sleepy:0', Scope.DEVICE, 'made up'), read)]",
    )
    command = (sys.executable, "-m", "jpwr", "--methods", "sleepy", "--interval", "20", "--", "touch", "ran")
    done = run(*command, cwd=tmp_path, PYTHONPATH=f"{REPOSITORY}:{tmp_path}")
    assert done.returncode == 0
    assert (tmp_path / "ran").exists()
    assert "sleepy:0: does not answer" in done.stderr


def test_clocks_and_limits_are_recorded_when_they_change(measure, tmp_path):
    measure("noted '\"status\"'")
    [status] = [event for event in trace_of(tmp_path).events if event.name == "status"]
    assert status.details == {
        "channel": "pynvml:0",
        "sm_clock_mhz": 1410,
        "temperature_c": 45,
        "power_limit_w": 400.0,
        "throttle_reasons": "0x4",
    }


def test_a_job_may_have_an_instance_of_a_gpu_that_is_divided(measure):
    summary, _ = measure("true", STAND_IN_DEVICES="3", STAND_IN_MIG="1", CUDA_VISIBLE_DEVICES="MIG-1-1")
    assert [channel["mine"] for channel in summary["channels"]] == [False, True, False]


def test_a_disk_that_is_full_ends_the_trace_and_not_the_run(tmp_path):
    # A limit on the size of files stands for the disk: Python ignores the signal and sees the error.
    command = "is_full() { (($(stat -c %s out/trace.csv) == 4096)); }; wait_until is_full"
    script = f"ulimit -f 4; exec {sys.executable} -m jpwr --methods estimate --interval 1 --df-out out -- "
    script += f"bash -c '{command}'"
    done = run("bash", "-c", script, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("can no longer be written") == 1
    assert trace_of(tmp_path).series()[0].samples > 20


def test_amd_gpus_have_the_table_of_their_counters_that_they_had(jpwr, tmp_path, amdsmi_folder):
    pandas = package("pandas", "pandas")
    variables = {"LD_LIBRARY_PATH": str(amdsmi_folder), "STAND_IN_SHAPE": "constant"}
    options = ("--methods", "rocm", "--idle", "0.5", "--df-out", "out", "--df-suffix", "s")
    done = jpwr(*options, "--", "bash", "-c", "rows 3", **variables)
    assert done.returncode == 0, done.stderr
    [path] = (tmp_path / "out").glob("energy_from_counter.s.*.csv")
    table = pandas.read_csv(path, index_col=0)
    trace = trace_of(tmp_path)
    assert list(table.columns) == [info.name for info in trace.channels]
    [energy_path] = (tmp_path / "out").glob("energy.s.*.csv")
    energy_wh = pandas.read_csv(energy_path, index_col=0)["0"]
    for series in trace.series():
        [counted_wh] = table[series.info.name]
        assert counted_wh == pytest.approx(energy_wh[series.info.name], rel=1e-4)
        with_idle_wh = (series.energy_j[-1] - series.energy_j[0]) / 3600
        assert 0 < counted_wh < with_idle_wh - 0.25 * 300 / 3600
    script = "from jpwr.ctxmgr import get_power\nwith get_power(['rocm'], 20) as measured: pass\n"
    script += "print(*measured.additional_data, list(measured.additional_data['energy_from_counter']))"
    counted = run(sys.executable, "-c", script, **variables).stdout
    assert counted == f"energy_from_counter {list(table.columns)}\n"


def test_ranks_of_a_node_have_one_sampler(jpwr, tmp_path):
    first = jpwr("--methods", "estimate", "--df-out", "out", "--", "bash", "-c", "exit 4", SLURM_LOCALID="0")
    other = jpwr("--methods", "estimate", "--df-out", "no", "--", "bash", "-c", "exit 5", SLURM_LOCALID="1")
    assert (first.returncode, other.returncode) == (4, 5)
    assert "not sampling: local rank 1" in other.stderr
    assert (tmp_path / "out" / "trace.csv").exists()
    assert not (tmp_path / "no").exists()
    # Ranks that another launcher starts in a job by Slurm have Slurm's rank of the job's script.
    nested = {"SLURM_LOCALID": "0", "SLURM_PROCID": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "2", "OMPI_COMM_WORLD_RANK": "2"}
    assert "not sampling: local rank 2" in jpwr("--methods", "estimate", "--", "true", **nested).stderr


def test_only_the_ranks_that_were_asked_for_sample(jpwr):
    flags = ("--methods", "estimate", "--use-mpi", "--mpi-ranks", "0", "2", "--", "true")
    assert "not sampling" not in jpwr(*flags, SLURM_PROCID="2").stderr
    assert "rank 1 is not among" in jpwr(*flags, SLURM_PROCID="1").stderr


def test_old_command_lines_leave_the_files_that_they_left(jpwr, nvml_folder, tmp_path):
    pandas = package("pandas", "pandas")
    before_s = time.time()
    # Constant power is right at whatever moment a busy machine reads it; a counter would be read late.
    device = {**CONSTANT, "STAND_IN_DEVICES": "2", "STAND_IN_FAULT": "no-counter"}
    done = jpwr(
        *("--methods", "pynvml", "--interval", "50", "--ignore-measure-errors", "--df-out", "energy_meas"),
        *("--df-filetype", "csv", "--df-suffix", "%q{SLURM_PROCID}", "--idle", "0.2", "bash", "-c", "rows 5"),
        **{"LD_LIBRARY_PATH": str(nvml_folder), "SLURM_PROCID": "7", **device},
        TRACE="energy_meas/trace.csv",
    )
    assert done.returncode == 0, done.stderr
    [power_path] = (tmp_path / "energy_meas").glob(f"power.7.{os.uname().nodename}.*.csv")
    [energy_path] = (tmp_path / "energy_meas").glob(f"energy.7.{os.uname().nodename}.*.csv")
    power = pandas.read_csv(power_path, index_col=0)
    assert list(power.columns) == ["timestamps", "pynvml:0", "pynvml:1"]
    assert before_s <= power["timestamps"].min() < power["timestamps"].max() <= time.time()
    assert set(power["pynvml:1"]) == {600.0}
    energy = pandas.read_csv(energy_path, index_col=0)["0"]
    # Of the command alone, without the idle phase.
    trace = read_trace(tmp_path / "energy_meas" / "trace.csv")
    window_s = [trace.event_time_s(f"command_{edge}") for edge in ("started", "ended")]
    assert window_s[1] - window_s[0] < power["timestamps"].max() - power["timestamps"].min() - 0.2
    for factor, estimate in enumerate(trace.energies(*window_s), 1):
        assert abs(estimate.energy_j - 300 * factor * (window_s[1] - window_s[0])) <= estimate.uncertainty_j
        assert energy[f"pynvml:{factor - 1}"] == pytest.approx(estimate.energy_j / 3600, rel=1e-4)


@pytest.mark.parametrize(("file_type", "engine"), [("h5", "tables"), ("parquet", "pyarrow")])
def test_data_frames_come_in_other_formats(jpwr, tmp_path, file_type, engine):
    pandas = package("pandas", "pandas")
    package(engine, engine)
    done = jpwr("--methods", "estimate", "--df-out", "out", "--df-filetype", file_type, "--", "true")
    assert done.returncode == 0, done.stderr
    [path] = (tmp_path / "out").glob(f"power.*.{file_type}")
    frame = pandas.read_hdf(path) if file_type == "h5" else pandas.read_parquet(path)
    assert list(frame.columns) == ["timestamps", "estimate:cpu"]
    if file_type == "h5":  # of energies it is a series, as that of jpwr 0.0.10
        [path] = (tmp_path / "out").glob("energy.*.h5")
        assert pandas.read_hdf(path)["estimate:cpu"] >= 0


def test_the_live_view_shows_each_channel_with_its_recent_past(nvml_folder, tmp_path):
    package("rich", "rich")
    terminal, other = pty.openpty()
    os.set_blocking(terminal, False)
    seen = bytearray()

    def screen() -> str:
        with suppress(BlockingIOError):
            while True:
                seen.extend(os.read(terminal, 65536))
        return seen.decode(errors="replace")

    command = [sys.executable, "-m", "jpwr", "--methods", "pynvml", "--live", "--", "bash", "-c", "file seen"]
    variables = environment(LD_LIBRARY_PATH=str(nvml_folder), TERM="xterm", **CONSTANT)
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stderr=other) as process:
        try:
            wait_until(lambda: "█" in screen(), "the live view")
            (tmp_path / "seen").touch()
            wait_until(lambda: screen() and process.poll() is not None, "the end")
        finally:
            (tmp_path / "seen").touch()
            process.kill()
    shown = screen()  # also what it wrote at its end
    os.close(other)
    os.close(terminal)
    assert process.returncode == 0
    assert "pynvml:0" in shown
    assert "300.0" in shown
    # Nothing is taken back once the summary is written.
    assert shown.rindex("by counter") > shown.rindex("\x1b[2K")
