"""Regions, counters that lie, devices that hang, and all the ways to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pandas
import pytest

import jpwr
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.marks import Mark, parse_mark
from jpwr.sampler import PowerMonitor
from jpwr.tests.conftest import environment
from jpwr.tests.test_energy import square
from jpwr.writers import read_trace

CONSTANT = {"STAND_IN_SHAPE": "constant", "STAND_IN_DEVICES": "1"}


def summary_of(done):
    """The summary that --json prints, and the words before it."""
    *words, line = done.stderr.splitlines()
    return json.loads(line), words


@pytest.fixture
def measure(jpwr, nvml_folder):
    """Run a script under the sampler on the stand-in; returns the summary."""

    def run(script, *flags, **variables):
        done = jpwr(
            *("--methods", "pynvml", "--json", "--df-out", "out", *flags, "--", "bash", "-c", script),
            **{"LD_LIBRARY_PATH": str(nvml_folder), **CONSTANT, **variables},
        )
        assert done.returncode == 0, done.stderr
        return summary_of(done)

    return run


def region(summary, name):
    [found] = [region for region in summary["regions"] if region["region"] == name]
    return found


def test_a_line_in_the_file_of_marks_makes_a_region_in_any_language(measure):
    script = (
        "echo begin outer >> $JPWR_MARKS; for i in 1 2; do echo begin 'my step' >> $JPWR_MARKS; sleep 0.5;"
        "echo end 'my step' >> $JPWR_MARKS; done; echo end outer >> $JPWR_MARKS"
    )
    summary, words = measure(script)
    outer, step = region(summary, "outer"), region(summary, "my step")
    assert (outer["count"], step["count"]) == (1, 2)
    assert step["duration_s"] == pytest.approx(1.0, abs=0.1)
    [channel] = step["channels"]
    assert channel["energy_wh"] == pytest.approx(300 * step["duration_s"] / 3600, rel=0.01)
    assert channel["samples"] >= 8
    assert outer["channels"][0]["energy_wh"] >= channel["energy_wh"]
    assert words == []


def test_a_region_in_python_has_the_true_energy_of_its_window(measure, tmp_path):
    # The counter is read when the mark is made, so that the window's edges are sharp whatever the interval.
    script = f"""{sys.executable} -c '
import time, jpwr
with jpwr.region("work"):
    time.sleep(1.013)
'"""
    summary, _ = measure(script, STAND_IN_SHAPE="square", STAND_IN_PERIOD_S="4")
    [marked] = read_trace(tmp_path / "out" / "trace.csv").regions()
    _, energy_j = square(4.0)
    [channel] = region(summary, "work")["channels"]
    assert channel["method"] == "counter"
    assert channel["energy_wh"] * 3600 == pytest.approx(energy_j(marked.end_s) - energy_j(marked.start_s), rel=0.01)


def test_a_region_shorter_than_the_sensor_resolves_is_noted(measure):
    summary, _ = measure("echo begin a >> $JPWR_MARKS; sleep 0.02; echo end a >> $JPWR_MARKS; sleep 0.3")
    assert any(
        "region 'a' lasted 0.0" in note and "less than pynvml:0 can resolve" in note for note in summary["notes"]
    )


def test_a_line_that_is_no_mark_is_told_once_and_left_out(measure):
    summary, words = measure("echo hello >> $JPWR_MARKS; echo start x >> $JPWR_MARKS; sleep 0.4")
    assert summary["regions"] == []
    assert len([word for word in words if "is no mark" in word]) == 1


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("begin a b\n", Mark("region_begin", "a b", None)),
        ("end a @12.5\n", Mark("region_end", "a", 12.5)),
        ("begin me@home\n", Mark("region_begin", "me@home", None)),
    ],
)
def test_a_mark_is_a_kind_a_name_and_maybe_a_time(line, mark):
    assert parse_mark(line) == mark


def test_regions_of_this_process_are_the_monitors():
    channel = Channel(ChannelInfo("a", Scope.CPU, ""), lambda: 5.0)
    with PowerMonitor([channel], interval_s=0.02) as monitor:
        for _ in range(2):
            with jpwr.region("twice"):
                time.sleep(0.1)
    regions = monitor.trace.regions()
    assert [found.name for found in regions] == ["twice", "twice"]
    [energy] = monitor.trace.energies(regions[0].start_s, regions[0].end_s)
    assert energy.energy_j == pytest.approx(5.0 * (regions[0].end_s - regions[0].start_s))


def test_outside_of_a_sampler_a_region_does_nothing(monkeypatch):
    monkeypatch.delenv("JPWR_MARKS", raising=False)
    with jpwr.region("nothing"):
        pass


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("counter-still", "stood still"), ("counter-reset", "fell"), ("counter-wrap-32", "fell")],
)
def test_a_counter_that_lies_is_not_used_and_that_is_said(measure, fault, reason):
    # A counter that stands still must do so from the start to be caught in the whole run.
    after_s = "0" if fault == "counter-still" else "0.6"
    summary, _ = measure("sleep 1.2", STAND_IN_FAULT=fault, STAND_IN_FAULT_S=after_s)
    [channel] = summary["channels"]
    assert channel["method"] == "integral"
    assert reason in channel["reason"]
    assert channel["energy_wh"] == pytest.approx(300 * 1.2 / 3600, rel=0.05)
    assert any(reason in note for note in summary["notes"])


def test_a_device_that_hangs_holds_up_no_other(measure, tmp_path):
    summary, words = measure(
        "sleep 2.5",
        STAND_IN_DEVICES="3",
        STAND_IN_FAULT="hang",
        STAND_IN_FAULT_S="0.5",
        STAND_IN_FAULT_DEVICE="1",
    )
    assert summary["hung"] == ["pynvml:1"]
    assert any("pynvml:1: does not answer" in word for word in words)
    first, hung, last = summary["channels"]
    assert first["samples"] > 15
    assert last["samples"] > 15
    assert hung["samples"] < 10
    assert len(read_trace(tmp_path / "out" / "trace.csv").channels) == 3


def test_a_sensor_with_a_slow_pace_of_its_own_delays_no_fast_one():
    def slow_w() -> float:
        time.sleep(0.3)
        return 7.0

    slow = Channel(ChannelInfo("slow", Scope.NODE, "", period_s=0.3), slow_w)
    fast = Channel(ChannelInfo("fast", Scope.DEVICE, ""), lambda: 1.0)
    with PowerMonitor([slow, fast], interval_s=0.02) as monitor:
        time.sleep(1.2)
    slow_series, fast_series = monitor.trace.series()
    assert 3 <= slow_series.samples <= 6
    assert fast_series.samples >= 40


def test_clocks_and_limits_are_recorded_when_they_change(measure, tmp_path):
    measure("sleep 0.3")
    [status] = [event for event in read_trace(tmp_path / "out" / "trace.csv").events if event.name == "status"]
    assert status.details == {
        "channel": "pynvml:0",
        "sm_clock_mhz": 1410,
        "memory_clock_mhz": 1593,
        "temperature_c": 45,
        "power_limit_w": 400.0,
        "throttle_reasons": "0x4",
    }


def test_instant_power_is_used_where_the_driver_has_it_and_said(measure):
    summary, _ = measure("sleep 0.3", STAND_IN_INSTANT="1", STAND_IN_MIG="1")
    assert "instant power" in summary["channels"][0]["source"]
    assert "MIG" in summary["channels"][0]["source"]
    summary, _ = measure("sleep 0.3")
    assert "averaged power" in summary["channels"][0]["source"]


def test_devices_that_are_hidden_from_the_job_are_shown_as_others(measure):
    summary, _ = measure("sleep 0.3", STAND_IN_DEVICES="3", CUDA_VISIBLE_DEVICES="GPU-1")
    assert [channel["mine"] for channel in summary["channels"]] == [False, True, False]


def test_amd_gpus_are_read_through_the_real_amdsmi(jpwr, amdsmi_folder):
    done = jpwr(
        *("--methods", "rocm", "--interval", "20", "--json", "--", "sleep", "1"),
        LD_LIBRARY_PATH=str(amdsmi_folder),
        STAND_IN_SHAPE="constant",
        STAND_IN_MI250="1",
        ROCR_VISIBLE_DEVICES="0",
    )
    summary, _ = summary_of(done)
    first, second = summary["channels"]
    assert (first["name"], second["name"]) == ("rocm:0", "rocm:2")  # a card's second device has no sensor
    assert first["num_devices"] == second["num_devices"] == 2
    assert first["device_id"] == "GPU-amd-0 GPU-amd-1"
    assert (first["mine"], second["mine"]) == (True, False)
    for factor, channel in enumerate((first, second), 1):
        assert channel["method"] == "counter"
        assert channel["avg_power_w"] == pytest.approx(300 * factor, rel=0.01)


def start(tmp_path, *command, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "jpwr", "--methods", "estimate", "--df-out", "out", "--", *command],
        cwd=tmp_path,
        env=environment(**variables),
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(path):
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not come")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_ends_the_command_is_the_exit_code(tmp_path, number):
    with start(tmp_path, "bash", "-c", "touch up; exec sleep 30") as process:
        wait_for(tmp_path / "up")
        process.send_signal(number)
        assert process.wait(timeout=20) == 128 + number
    assert read_trace(tmp_path / "out" / "trace.csv").events[-1].details == {"exit_code": 128 + number}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_ignores_a_signal_is_killed_by_the_second(tmp_path, number):
    with start(tmp_path, "bash", "-c", "trap '' TERM INT; touch up; while true; do sleep 0.1; done") as process:
        wait_for(tmp_path / "up")
        process.send_signal(number)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=20) == 137
        assert "the command is killed" in process.stderr.read()
    assert read_trace(tmp_path / "out" / "trace.csv").events[-1].name == "command_ended"


def test_processes_that_a_command_leaves_behind_are_not_waited_for(tmp_path):
    script = "(sleep 5 >/dev/null 2>&1 & echo $! > left); exit 3"
    started_s = time.monotonic()
    with start(tmp_path, "bash", "-c", script) as process:
        assert process.wait(timeout=20) == 3
    assert time.monotonic() - started_s < 4
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)


def test_a_disk_that_is_full_ends_the_trace_and_not_the_run(tmp_path):
    # A limit on the size of files stands for the disk: Python ignores the signal and sees the error.
    script = f"ulimit -f 2; exec {sys.executable} -m jpwr --methods estimate --interval 1 --df-out out -- sleep 1.5"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0
    assert "cannot be written any more" in done.stderr
    assert done.stderr.count("cannot be written any more") == 1
    assert read_trace(tmp_path / "out" / "trace.csv").series()[0].samples > 20


def test_ranks_of_a_node_have_one_sampler(jpwr, tmp_path):
    first = jpwr("--methods", "estimate", "--df-out", "out", "--", "bash", "-c", "exit 4", SLURM_LOCALID="0")
    other = jpwr("--methods", "estimate", "--df-out", "no", "--", "bash", "-c", "exit 5", SLURM_LOCALID="1")
    assert (first.returncode, other.returncode) == (4, 5)
    assert "not sampling: local rank 1" in other.stderr
    assert (tmp_path / "out" / "trace.csv").exists()
    assert not (tmp_path / "no").exists()


def test_ranks_without_a_number_agree_by_a_lock(tmp_path):
    one = f"{sys.executable} -m jpwr --use-mpi --methods estimate --df-out out-$i -- sleep 1"
    script = f"for i in 1 2 3; do {one} & done; wait"
    environ = {name: value for name, value in environment().items() if not name.startswith(("SLURM", "OMPI", "PMI"))}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.stderr.count("samples this node") == 2
    assert len(list(tmp_path.glob("out-*/trace.csv"))) == 1


def test_only_the_ranks_that_were_asked_for_sample(jpwr):
    flags = ("--methods", "estimate", "--use-mpi", "--mpi-ranks", "0", "2", "--", "true")
    assert "not sampling" not in jpwr(*flags, SLURM_PROCID="2").stderr
    assert "rank 1 is not among" in jpwr(*flags, SLURM_PROCID="1").stderr


def test_old_command_lines_leave_the_files_that_they_left(jpwr, nvml_folder, tmp_path):
    done = jpwr(
        *("--methods", "pynvml", "--interval", "50", "--ignore-measure-errors", "--df-out", "energy_meas"),
        *("--df-filetype", "csv", "--df-suffix", "%q{SLURM_PROCID}", "sleep", "1"),
        **{"LD_LIBRARY_PATH": str(nvml_folder), "SLURM_PROCID": "7", **CONSTANT, "STAND_IN_DEVICES": "2"},
    )
    assert done.returncode == 0, done.stderr
    [power_path] = (tmp_path / "energy_meas").glob(f"power.7.{os.uname().nodename}.*.csv")
    [energy_path] = (tmp_path / "energy_meas").glob(f"energy.7.{os.uname().nodename}.*.csv")
    power = pandas.read_csv(power_path, index_col=0)
    assert list(power.columns) == ["timestamps", "pynvml:0", "pynvml:1"]
    assert power["timestamps"].iloc[0] == pytest.approx(time.time(), abs=30)
    assert set(power["pynvml:1"]) == {600.0}
    energy = pandas.read_csv(energy_path, index_col=0)["0"]
    assert energy["pynvml:1"] == pytest.approx(2 * energy["pynvml:0"])
    assert energy["pynvml:0"] == pytest.approx(300 / 3600, rel=0.2)


@pytest.mark.parametrize("file_type", ["h5", "parquet"])
def test_data_frames_come_in_other_formats(jpwr, tmp_path, file_type):
    done = jpwr("--methods", "estimate", "--df-out", "out", "--df-filetype", file_type, "--", "sleep", "0.3")
    assert done.returncode == 0, done.stderr
    [path] = (tmp_path / "out").glob(f"power.*.{file_type}")
    frame = pandas.read_hdf(path) if file_type == "h5" else pandas.read_parquet(path)
    assert list(frame.columns) == ["timestamps", "estimate:cpu"]


def test_old_python_code_measures_with_get_power(nvml_folder, tmp_path):
    script = """
import time
from jpwr.ctxmgr import get_power
from jpwr.gpu.pynvml import power
with get_power([power()], 20) as measured_scope:
    time.sleep(0.5)
print(list(measured_scope.df.columns), len(measured_scope.df) > 15)
energy, additional = measured_scope.energy()
print(round(energy["pynvml:0"] * 3600 / 300, 1), additional)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(LD_LIBRARY_PATH=str(nvml_folder), **CONSTANT),
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["['timestamps', 'pynvml:0'] True", "0.5 {}"], done.stderr


def test_prometheus_reads_the_latest_power_on_the_loopback_address(nvml_folder, tmp_path):
    import socket
    import urllib.request

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "jpwr", "--methods", "pynvml", "--prometheus", str(port), "--", "sleep", "3"]
    with subprocess.Popen(
        command, env=environment(LD_LIBRARY_PATH=str(nvml_folder), **CONSTANT), stderr=subprocess.DEVNULL
    ) as process:
        text = ""
        for _ in range(50):
            try:
                text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2).read().decode()
            except OSError:
                text = ""
            if "jpwr_power_watts{" in text:
                break
            time.sleep(0.1)
        process.terminate()
    assert 'jpwr_power_watts{channel="pynvml:0",scope="device",device_id="GPU-0",estimated="false"} 300.0' in text
    assert "# TYPE jpwr_energy_joules_total counter" in text


def test_a_port_that_is_taken_is_one_clear_sentence(jpwr):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = jpwr("--methods", "estimate", "--prometheus", str(port), "--", "true")
    assert done.returncode == 125
    assert f"--prometheus {port} cannot be served" in done.stderr


def test_the_live_view_shows_each_channel_with_its_recent_past(nvml_folder, tmp_path):
    import pty

    terminal, other = pty.openpty()
    seen: list[bytes] = []

    def follow() -> None:
        while True:
            try:
                seen.append(os.read(terminal, 4096))
            except OSError:
                return

    reader = threading.Thread(target=follow)
    reader.start()
    command = [sys.executable, "-m", "jpwr", "--methods", "pynvml", "--live", "--", "sleep", "2"]
    variables = environment(LD_LIBRARY_PATH=str(nvml_folder), TERM="xterm", **CONSTANT)
    assert subprocess.run(command, env=variables, stderr=other).returncode == 0
    os.close(other)
    reader.join(5)
    text = b"".join(seen).decode()
    assert "pynvml:0" in text
    assert "300.0" in text
    assert "█" in text


def test_the_sensors_of_a_machine_are_listed_with_their_pace(jpwr, nvml_folder):
    done = jpwr("list", LD_LIBRARY_PATH=str(nvml_folder), **CONSTANT)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert any(line.startswith("pynvml:0: device, 300.0 W, update period not known, energy counter") for line in lines)
    assert any(line.startswith("estimate:cpu: cpu, ") and "only when asked for by name" in line for line in lines)
    assert any(line.startswith(("rapl: not here: ", "rapl:package")) for line in lines)


def test_an_old_trace_is_summarised_plotted_and_checked(jpwr, measure, tmp_path):
    measure("sleep 1", "--interval", "10")
    done = jpwr("read", "out/trace.csv")
    assert done.returncode == 0
    assert "pynvml:0" in done.stdout
    assert (tmp_path / "out" / "trace.png").read_bytes().startswith(b"\x89PNG")
    summary = json.loads(jpwr("read", "out/trace.csv", "--json").stdout)
    assert summary["channels"][0]["avg_power_w"] == pytest.approx(300, rel=0.01)
    done = jpwr("check", "out/trace.csv")
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    measure("sleep 0.3", "--interval", "100")
    done = jpwr("check", "out/trace.csv")
    assert done.returncode == 1
    assert "samples, 60 needed" in done.stdout


@pytest.mark.parametrize("tool", ["read", "check"])
def test_a_trace_that_is_none_is_one_clear_sentence(jpwr, tmp_path, tool):
    (tmp_path / "x.csv").write_text("hello\n")
    done = jpwr(tool, "x.csv")
    assert done.returncode == 125
    assert "is not a trace of jpwr" in done.stderr
    assert "Traceback" not in done.stderr
