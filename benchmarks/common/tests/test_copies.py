"""Copies of a point that run at once: their start, their end, their devices, and the one that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.measure.regions import MarkedSteps
from benchmarks.common.measure.step_timer import StepTimer
from benchmarks.common.measure.together import Copies
from benchmarks.common.measure.window import measure_steps
from benchmarks.common.node.copies import devices_of_copy
from benchmarks.common.options import ConfigError, WindowOptions
from jpwr.backends.visible import HIP
from jpwr.regions import RegionTimer
from tests.waiting import PATIENCE_S, until

REPOSITORY = Path(__file__).resolve().parents[3]


class Clock:
    """A clock that moves when somebody sleeps, and lets something happen then."""

    def __init__(self, then=lambda now_s: None):
        self.now_s, self.then = 0.0, then

    def sleep(self, seconds):
        self.now_s += seconds
        self.then(self.now_s)


def copy_of(folder, number, copies=2, clock=None, limit_s=60.0):
    clock = clock or Clock()
    return Copies(folder, number, copies, limit_s, lambda: clock.now_s, clock.sleep)


def test_a_copy_begins_when_all_are_ready(tmp_path):
    clock = Clock(lambda now_s: (tmp_path / "ready_2").touch() if now_s > 30 else None)
    assert copy_of(tmp_path, 1, clock=clock).wait_for_all() == 0
    assert 30 < clock.now_s < 31
    assert copy_of(tmp_path, 2).wait_for_all() == 0


def test_a_copy_that_waits_too_long_names_the_late_ones(tmp_path):
    (tmp_path / "ready_3").touch()
    with pytest.raises(ConfigError, match=r"copy 1 waited 60 s .* did not end their warm-up: 2, 4; see job\.err"):
        copy_of(tmp_path, 1, copies=4).wait_for_all()


def test_a_copy_does_not_wait_for_one_that_has_failed(tmp_path):
    clock = Clock(lambda now_s: (tmp_path / "failed").write_text("2 1\n"))
    with pytest.raises(ConfigError, match="another copy of the point has failed"):
        copy_of(tmp_path, 1, clock=clock).wait_for_all()
    assert clock.now_s < 1


def test_a_copy_works_until_the_last_one_has_measured_enough(tmp_path):
    first, second = (copy_of(tmp_path, number) for number in (1, 2))
    assert (first.steps_left(200), first.steps_left(7)) == (10, 1)
    assert second.steps_left(3) == first.steps_left(210) == 0


def test_the_window_begins_and_ends_with_that_of_the_other_copy(tmp_path, monkeypatch):
    marks = tmp_path / "marks"
    for name, value in (("COPY", "1"), ("COPIES", "2"), ("COPIES_FOLDER", str(tmp_path))):
        monkeypatch.setenv(f"CARAML_{name}", value)
    monkeypatch.setenv("JPWR_MARKS", str(marks))
    (tmp_path / "ready_2").touch()
    taken = []

    def step():
        taken.append(1)
        if len(taken) == 50:
            (tmp_path / "done_2").touch()

    timer = StepTimer(lambda: float(len(taken)), lambda: None)
    options = WindowOptions(warmup_steps=2, measured_steps=20)
    measure_steps(step, timer, options, Launch(), int, MarkedSteps(RegionTimer()))
    # 20 steps, and then 1 or 2 at a time until the other one has enough.
    assert timer.window_s == len(timer.host_times_s) == 48
    assert [line.split(" @")[0] for line in marks.read_text().splitlines()] == [
        "begin measured window of copy 1",
        "end measured window of copy 1",
    ]


@pytest.mark.parametrize(
    ("vendor", "environ", "of_each"),
    [
        ("nvidia", {}, ["0,1", "2,3"]),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c,GPU-d"}, ["GPU-a,GPU-b", "GPU-c,GPU-d"]),
        ("amd", {}, ["0,1", "2,3"]),
        ("amd", {"ROCR_VISIBLE_DEVICES": "4,5,6,7"}, ["0,1", "2,3"]),  # which are counted in what ROCr has left
        ("amd", {"CUDA_VISIBLE_DEVICES": "4,5,6,7", "HIP_VISIBLE_DEVICES": ""}, ["4,5", "6,7"]),
    ],
)
def test_each_copy_sees_devices_of_its_own(vendor, environ, of_each):
    for index, devices in enumerate(of_each):
        assert devices_of_copy(vendor, 2, index, environ) == dict.fromkeys(HIP, devices)
    assert devices_of_copy("none", 2, 0, environ) == {}


@pytest.mark.parametrize("name", [*HIP, "ROCR_VISIBLE_DEVICES"])
def test_too_few_devices_are_one_sentence(name):
    with pytest.raises(ConfigError, match=f"copy 2 of this node needs 2 devices, but {name} has 2 in all"):
        devices_of_copy("nvidia", 2, 1, {name: "0,1"})


def launch(tmp_path, script, *flags):
    command = [sys.executable, "-m", "benchmarks.common.node.copies", "--copies", "4", "--on-node", "2", *flags]
    return subprocess.Popen(
        [*command, "--devices", "1", "--", sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": "5,7"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_copies_have_folders_and_output_of_their_own(tmp_path):
    script = "import os; print(*(os.environ[n] for n in ('CARAML_COPY', 'CARAML_COPIES', 'CUDA_VISIBLE_DEVICES')))"
    for first in ("1", "3"):
        process = launch(tmp_path, script, "--first", first, "--vendor", "nvidia")
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, err) == (0, "")
        assert out == ("1 4 5\n" if first == "1" else "")
    texts = {path.parent.name: path.read_text() for path in tmp_path.glob("copy_*/job.out")}
    assert texts == {"copy_1": "", "copy_2": "2 4 7\n", "copy_3": "3 4 5\n", "copy_4": "4 4 7\n"}


def test_a_copy_that_fails_ends_the_others_and_is_named(tmp_path):
    script = f"import os, time\nif os.environ['CARAML_COPY'] == '2': os._exit(5)\ntime.sleep({2 * PATIENCE_S})"
    process = launch(tmp_path, script)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 5
    assert err == "copies: error: copy 2 ended with exit code 5; the others were ended\n"
    assert (tmp_path / "copies" / "failed").read_text() == "2 5\n"


def test_copies_that_are_told_to_stop_have_not_failed(tmp_path):
    process = launch(tmp_path, f"import time, pathlib\npathlib.Path('up').touch()\ntime.sleep({2 * PATIENCE_S})")
    until(lambda: len(list(tmp_path.glob("copy_*/up"))) == 2, "both copies")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143
    assert not (tmp_path / "copies" / "failed").exists()
