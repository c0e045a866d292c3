from __future__ import annotations

import math
import random

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.energy import Accumulator, accumulate, counter_step, estimate_energy, integral_j, relative_difference
from jpwr.errors import NotEnoughSamples
from jpwr.sampler import dither_for, has_random_phase
from jpwr.trace import Region, Trace

POWER = ChannelInfo("power", Scope.DEVICE, "")
COUNTED = ChannelInfo("counted", Scope.DEVICE, "", has_counter=True, counter_resolution_j=0.001)


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
    assert integral_j(times_s, [power_w(t) for t in times_s]) == pytest.approx(energy_j, rel=1e-4)


def test_the_steps_need_not_be_equal():
    times_s = [0.0, 0.1, 4.0, 4.5, 10.0]
    assert integral_j(times_s, [40 * t for t in times_s]) == pytest.approx(2000.0)


def test_a_missing_sample_is_counted_and_its_neighbours_are_joined():
    accumulator = accumulate([0.0, 1.0, 2.0, 3.0], [100.0, math.nan, 300.0, 300.0])
    totals = accumulator.last
    assert (totals.samples, totals.missing, totals.covered_s) == (3, 1, 3.0)
    assert totals.energy_j == pytest.approx(700.0)
    assert accumulator.peak_power_w == 300.0
    assert accumulator.largest_gap_s == 2.0


@pytest.mark.parametrize("power_w", [[], [5.0], [5.0, math.nan]])
def test_fewer_than_two_samples_have_no_energy(power_w):
    with pytest.raises(NotEnoughSamples, match="at least 2 samples"):
        integral_j(range(len(power_w)), power_w)


def whole(times_s, power_w, counter_j=None, info=COUNTED):
    accumulator = accumulate(times_s, power_w, counter_j)
    return estimate_energy(accumulator.first, accumulator.last, accumulator.last, info)


def test_a_sound_counter_is_believed_and_both_witnesses_are_told():
    times_s = times(0.1, 10)
    estimate = whole(times_s, [97.0] * 101, [100 * t for t in times_s])
    assert (estimate.method, estimate.reason) == ("counter", "")
    assert estimate.energy_j == pytest.approx(1000.0)
    assert estimate.integral_j == pytest.approx(970.0)
    assert estimate.difference == pytest.approx(-0.03)
    assert estimate.avg_power_w == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("counter_j", "reason"),
    [
        (lambda t: 5.0, "stood still"),
        (lambda t: 100 * t if t < 5 else 100 * (t - 5), "fell"),  # reset
        (lambda t: (100 * t + 4000) % 4294.967296, "fell"),  # 32 bits of millijoules wrap around
        (lambda t: 100 * t + (5e6 if t > 5 else 0), "more apart"),  # jumps
        (lambda t: 50 * t, "more apart"),
        (lambda t: math.nan if 4 < t < 5 else 100 * t, "could not be read"),
        (lambda t: math.nan, "could not be read"),
    ],
)
def test_a_counter_that_cannot_be_right_is_not_used_and_that_is_said(counter_j, reason):
    times_s = times(0.1, 10)
    estimate = whole(times_s, [100.0] * 101, [counter_j(t) for t in times_s])
    assert estimate.method == "integral"
    assert reason in estimate.reason
    assert estimate.energy_j == pytest.approx(1000.0)


def test_without_a_counter_there_is_nothing_to_excuse():
    estimate = whole([0.0, 1.0, 2.0], [100.0] * 3, info=POWER)
    assert (estimate.method, estimate.reason) == ("integral", "")
    assert math.isnan(estimate.counter_j)
    assert math.isnan(estimate.difference)


def test_missing_time_makes_the_integral_unsure_by_all_of_it():
    estimate = whole(times(0.1, 10), [100.0 if i < 80 else math.nan for i in range(101)], info=POWER)
    assert estimate.energy_j == pytest.approx(1000.0)
    assert estimate.uncertainty_j == pytest.approx(100 * 2.1)


def test_a_reading_that_lags_makes_a_windows_ends_unsure():
    info = POWER._replace(averaging_s=1.0)
    assert whole([0.0, 5.0, 10.0], [100.0, 100.0, 100.0], info=info).uncertainty_j == 0.0
    estimate = whole(times(0.01, 10), [100.0 + 20 * t for t in times(0.01, 10)], info=info)
    assert estimate.uncertainty_j == pytest.approx(200.0, rel=0.05)


def square(period_s):
    def power_w(t):
        return 500.0 if t % period_s < period_s / 2 else 100.0

    def energy_j(t):
        periods, phase_s = divmod(t, period_s)
        return periods * period_s * 300 + (500 * min(phase_s, period_s / 2) + 100 * max(0.0, phase_s - period_s / 2))

    return power_w, energy_j


def spikes(t):
    return 500.0 if t % 1 < 0.02 else 100.0


SHAPES = {
    "square of 1 s": square(1.0),
    "square of 0.37 s": square(0.37),
    "ramp": (lambda t: 100 + 5 * t, lambda t: 100 * t + 2.5 * t * t),
    "spikes of 20 ms": (spikes, lambda t: 100 * t + 400 * (0.02 * math.floor(t) + min(t % 1, 0.02))),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("interval_s", [0.01, 0.1])
def test_the_stated_uncertainty_covers_the_truth_in_95_of_100_windows(shape, interval_s):
    power_w, energy_j = SHAPES[shape]
    chance = random.Random(7)
    windows_s = (1, 5, 20)
    runs, before_s, after_s = 60, 5, 5
    covered = dict.fromkeys(windows_s, 0)
    errors = {window_s: [] for window_s in windows_s}
    for _ in range(runs):
        dither = dither_for(interval_s, chance.random)
        phase_s = chance.random() * interval_s
        start_s = before_s + chance.random()
        ends_s = [start_s + window_s for window_s in windows_s]
        ticks = range(int((ends_s[-1] + after_s) / interval_s))
        # A mark is sampled at once.
        marked_s = [time_s + 2e-4 for time_s in (start_s, *ends_s)]
        accumulator, totals = Accumulator(), []
        edges_s = [start_s, *ends_s]
        for time_s in sorted([phase_s + (tick + dither(tick)) * interval_s for tick in ticks] + marked_s):
            accumulator.add(time_s, power_w(time_s))
            while edges_s and time_s >= edges_s[0]:
                totals.append(accumulator.at(edges_s.pop(0)))
        start, *ends = totals
        for window_s, end in zip(windows_s, ends):
            estimate = estimate_energy(start, end, accumulator.last, POWER, has_random_phase(interval_s))
            true_j = energy_j(start_s + window_s) - energy_j(start_s)
            covered[window_s] += abs(estimate.energy_j - true_j) <= estimate.uncertainty_j
            errors[window_s].append(abs(estimate.energy_j - true_j) / true_j)
    assert min(covered.values()) >= 0.95 * runs, covered
    if interval_s == 0.01:
        assert sum(errors[5]) / runs < 0.005
        assert sum(errors[20]) / runs < 0.005


def test_a_counter_that_starts_again_goes_on():
    assert counter_step(990, 15, 1000) == 25
    assert counter_step(15, 25, 1000) == 10


def test_a_difference_to_nothing_is_missing():
    assert relative_difference(95.0, 100.0) == pytest.approx(-0.05)
    assert math.isnan(relative_difference(5.0, 0.0))


def ramp() -> Trace:
    """10 W more each second, for ten seconds; the second channel is read every other second only."""
    trace = Trace([COUNTED, POWER])
    for second in range(11):
        trace.append(second, [10.0 * second, 5.0 if second % 2 == 0 else None], [5.0 * second**2, None])
    return trace


def test_a_window_between_samples_has_interpolated_edges():
    counted, power = ramp().energies(2.5, 4.25)
    # Power is a straight line between samples, and so is the counter.
    assert counted.integral_j == pytest.approx(5 * (4.25**2 - 2.5**2))
    assert counted.counter_j == pytest.approx(12.5 + 35 + 11.25)
    assert power.integral_j == pytest.approx(1.75 * 5)
    assert (counted.samples, power.samples) == (2, 1)


def test_a_channel_that_was_not_read_in_a_row_has_no_sample_there():
    counted, power = ramp().series()
    assert (counted.samples, counted.missing) == (11, 0)
    assert (power.samples, power.missing) == (6, 0)
    assert list(power.times_s) == [0, 2, 4, 6, 8, 10]
    assert power.energy_j is None


@pytest.mark.parametrize("window", [(-1.0, 5.0), (5.0, 10.5), (math.nan, 5.0)])
def test_a_window_that_the_trace_does_not_reach_over_is_refused(window):
    with pytest.raises(NotEnoughSamples, match="not covered by the trace"):
        ramp().energies(*window)


def test_regions_repeat_and_lie_in_each_other():
    trace = Trace([POWER])
    for kind, name, time_s in [
        ("begin", "epoch", 0.0),
        ("begin", "step", 1.0),
        ("end", "step", 2.0),
        ("begin", "step", 3.0),
        ("begin", "step", 3.5),
        ("end", "step", 4.0),
        ("end", "step", 5.0),
        ("end", "epoch", 6.0),
        ("end", "never begun", 7.0),
        ("begin", "never ended", 8.0),
    ]:
        trace.event(f"region_{kind}", time_s, region=name)
    assert trace.regions() == [
        Region("step", 1.0, 2.0),
        Region("step", 3.5, 4.0),
        Region("step", 3.0, 5.0),
        Region("epoch", 0.0, 6.0),
    ]
