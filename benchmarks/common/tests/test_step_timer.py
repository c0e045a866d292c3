from __future__ import annotations

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.measure.regions import MarkedSteps
from benchmarks.common.measure.step_timer import StepTimer
from benchmarks.common.measure.window import measure_steps
from benchmarks.common.options import WindowOptions
from jpwr.regions import RegionTimer


class Device:
    """It takes 1 s for a step, and 0.2 s more until it has one when it has been waited for; the host needs 0.1 s."""

    def __init__(self) -> None:
        self.host_s = self.device_s = 100.0
        self.waits = 0

    def step(self) -> None:
        self.host_s += 0.1
        idle = self.device_s < self.host_s
        self.device_s = max(self.device_s, self.host_s + 0.2 * idle) + 1.0

    def synchronize(self) -> None:
        self.waits += 1
        self.host_s = max(self.host_s, self.device_s)


@pytest.mark.parametrize(
    ("options", "together_s", "together", "steps"),
    [
        (WindowOptions(warmup_steps=2, measured_steps=20), 10.0, 1, 20),  # its course is seen in as many parts
        (WindowOptions(warmup_steps=2, measured_steps=200), 10.0, 7, 203),
        (WindowOptions(warmup_steps=2, measured_steps=200, max_measured_s=1000), 10.0, 7, 196),
        (WindowOptions(warmup_steps=2, measured_steps=900), 0.0, 1, 900),
        (WindowOptions(warmup_steps=0, measured_steps=900), 10.0, 1, 900),  # nothing is known of their time
        (WindowOptions(warmup_steps=2, measured_steps=900), 1.0, 1, 900),  # a step takes longer
    ],
)
def test_steps_are_waited_for_together_so_that_the_device_always_has_one(options, together_s, together, steps, capsys):
    device = Device()
    timer = StepTimer(lambda: device.host_s, device.synchronize)
    regions = RegionTimer(now_s=lambda: device.host_s)
    measure_steps(device.step, timer, options, Launch(rank=1), int, MarkedSteps(regions), together_s)
    marked = regions.steps()
    assert [step.duration_s for step in marked] == pytest.approx(timer.host_times_s)
    assert marked[0].start_s == timer.window_start_s
    assert timer.steps_together == together
    assert len(timer.host_times_s) * together == steps
    assert sum(timer.host_times_s) == pytest.approx(timer.window_s) == pytest.approx(steps + 0.3 * steps / together)
    assert timer.measured_step_times_s == pytest.approx([1 + 0.3 / together] * (steps // together))
    assert device.waits == 2 + options.warmup_steps + steps // together


@pytest.mark.parametrize("together_s", [0.0, 3.0])
@pytest.mark.parametrize("speedup", [1.0, 1.1, 17.0])
def test_a_window_of_steps_that_are_faster_than_those_before_is_as_long_as_was_asked_for(speedup, together_s):
    """Something else was at work during the warm-up."""
    now_s, taken = [100.0], []

    def step() -> None:
        taken.append(2.5 / (speedup if len(taken) >= 2 else 1))
        now_s[0] += taken[-1]

    timer = StepTimer(lambda: now_s[0], lambda: None)
    regions = RegionTimer(now_s=lambda: now_s[0])
    options = WindowOptions(warmup_steps=2, measured_steps=3, min_measured_s=60.0)
    measure_steps(step, timer, options, Launch(rank=1), int, MarkedSteps(regions), together_s)
    assert 60.0 <= timer.window_s <= 60.0 + 2.5 * timer.steps_together
    assert len(timer.measured_step_times_s) * timer.steps_together == len(taken) - 2
    assert timer.measured_step_times_s == pytest.approx([2.5 / speedup] * len(timer.measured_step_times_s))
    assert len(regions.steps()) == len(timer.host_times_s)


class Moment:
    def __init__(self, time_s: float) -> None:
        self.time_s = time_s

    def elapsed_s(self, since: Moment) -> float:
        return self.time_s - since.time_s


def test_with_device_events_nothing_waits_for_the_device_within_the_window():
    """The host needs 0.1 s to give a step to a device that takes 1 s for it."""
    host_s, device_s, waits = [100.0], [100.0], []

    def synchronize() -> None:
        waits.append(len(timer.warmup_step_times_s) + len(timer.window_times_s))
        host_s[0] = max(host_s[0], device_s[0])

    timer = StepTimer(lambda: host_s[0], synchronize, lambda: Moment(device_s[0]))
    timer.start()
    for index in range(5):
        if index == 2:
            timer.begin_window()
        host_s[0] += 0.1
        device_s[0] = max(device_s[0], host_s[0]) + 1.0
        timer.step_done()
    timer.finish()
    assert waits == [0, 0, 1, 2, 6]  # the start, both warm-up steps, and the window's beginning and end
    # The device takes up its first step when it is told of it.
    assert timer.measured_step_times_s == pytest.approx([1.1, 1.0, 1.0])
    assert timer.window_s == pytest.approx(sum(timer.measured_step_times_s))
    assert timer.host_times_s == pytest.approx([0.1, 0.1, 2.9])
