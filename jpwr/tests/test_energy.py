from __future__ import annotations

import math

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.energy import counter_energy_j, counter_step, integrate, relative_difference
from jpwr.errors import NotEnoughSamples
from jpwr.trace import Trace, interpolate


def times(step_s: float, end_s: float) -> list[float]:
    return [i * step_s for i in range(round(end_s / step_s) + 1)]


@pytest.mark.parametrize(
    ("power_w", "energy_j"),
    [
        (lambda t: 300.0, 3000.0),
        (lambda t: 40 * t, 2000.0),
        (lambda t: 100 + 50 * math.sin(math.pi * t / 10), 1000 + 50 * 20 / math.pi),
    ],
)
def test_energy_is_the_area_under_the_power_curve(power_w, energy_j):
    times_s = times(0.1, 10)
    assert integrate(times_s, [power_w(t) for t in times_s]).energy_j == pytest.approx(energy_j, rel=1e-4)


def test_the_steps_need_not_be_equal():
    times_s = [0.0, 0.1, 4.0, 4.5, 10.0]
    assert integrate(times_s, [40 * t for t in times_s]).energy_j == pytest.approx(2000.0)


def test_a_missing_sample_is_counted_and_its_neighbours_are_joined():
    integral = integrate([0.0, 1.0, 2.0, 3.0], [100.0, math.nan, 300.0, 300.0])
    assert (integral.samples, integral.missing) == (3, 1)
    assert integral.energy_j == pytest.approx(700.0)
    assert integral.avg_power_w == pytest.approx(700 / 3)
    assert integral.peak_power_w == 300.0


@pytest.mark.parametrize("power_w", [[], [5.0], [5.0, math.nan]])
def test_fewer_than_two_samples_have_no_energy(power_w):
    with pytest.raises(NotEnoughSamples, match="at least 2 samples"):
        integrate(range(len(power_w)), power_w)


@pytest.mark.parametrize(
    ("counter_j", "energy_j"),
    [
        ([10.0, 15.0, 30.0], 20.0),
        ([math.nan, 10.0, math.nan, 30.0], 20.0),
        ([10.0, 10.0, 10.0], math.nan),
        ([10.0, 5.0, 30.0], math.nan),
        ([10.0], math.nan),
        (None, math.nan),
    ],
)
def test_a_counter_that_cannot_be_right_gives_no_energy(counter_j, energy_j):
    assert counter_energy_j(counter_j) == pytest.approx(energy_j, nan_ok=True)


def test_a_counter_that_starts_again_goes_on():
    assert counter_step(990, 15, 1000) == 25
    assert counter_step(15, 25, 1000) == 10


def test_a_difference_to_nothing_is_missing():
    assert relative_difference(95.0, 100.0) == pytest.approx(-0.05)
    assert math.isnan(relative_difference(5.0, 0.0))


def ramp() -> Trace:
    trace = Trace([ChannelInfo("a", Scope.CPU, "", has_counter=True), ChannelInfo("b", Scope.CPU, "")])
    for second in range(11):
        trace.append(second, [10.0 * second, 5.0], [100.0 * second, math.nan])
    return trace


def test_a_window_between_samples_has_interpolated_edges():
    a, b = ramp().between(2.5, 4.25)
    assert list(a.times_s) == [2.5, 3.0, 4.0, 4.25]
    assert list(a.power_w) == pytest.approx([25.0, 30.0, 40.0, 42.5])
    assert a.energy_j is not None
    assert a.energy_j[-1] - a.energy_j[0] == pytest.approx(175.0)
    assert b.energy_j is None


@pytest.mark.parametrize("window", [(-1.0, 5.0), (5.0, 10.5)])
def test_a_window_that_the_trace_does_not_reach_over_is_refused(window):
    with pytest.raises(NotEnoughSamples, match="not covered by the trace"):
        ramp().between(*window)


def test_between_a_sample_and_a_missing_one_there_is_no_guess():
    assert interpolate([0.0, 1.0, 2.0], [10.0, math.nan, 30.0], 1.5) == pytest.approx(25.0)
    assert math.isnan(interpolate([0.0, 1.0], [10.0, math.nan], 0.5))
