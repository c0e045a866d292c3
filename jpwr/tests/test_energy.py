"""Energy of a window: its two sources, the rule of choice, and whether the stated interval holds the truth."""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_right
from typing import Callable

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.energy import ChannelEnergy
from jpwr.energy.power import VARIANCE_OF_SQUARES, PowerCurve
from jpwr.intervals import LEVEL, SAMPLES_FOR_A_PEAK, SAMPLES_FOR_A_RANGE, missed_share, students_t
from jpwr.tests import loads
from jpwr.tests.loads import (
    BLIND,
    INFO,
    LIMIT_W,
    LOADS,
    Trial,
    channel,
    constant,
    counter_of,
    levels,
    moments,
    noise,
    renewed,
    square,
    training,
)
from jpwr.tests.trials import COUNTERS, FAULTS, LIMITED, SENSORS, check, tried

POWER = ChannelInfo("power", Scope.DEVICE, "", limit_w=LIMIT_W)
UNREAD = "was not read in that time"
COUNTED = ChannelInfo("counted", Scope.DEVICE, "", has_counter=True, counter_resolution_j=0.001)


def widths(done: list[Trial]) -> float:
    """Median half-width as a share of the energy."""
    return statistics.median(one.width for one in done)


def times(step_s: float, end_s: float) -> list[float]:
    return [index * step_s for index in range(round(end_s / step_s) + 1)]


# Statistics.


@pytest.mark.parametrize(
    ("freedom", "expected"), [(3, 3.182), (5, 2.571), (10, 2.228), (100, 1.984), (math.inf, 1.960)]
)
def test_students_t_is_that_of_the_tables(freedom, expected):
    assert students_t(0.95, freedom) == pytest.approx(expected, rel=0.012)
    assert students_t(0.95, 30) == pytest.approx(2.0422725, rel=2e-6)  # there, the series has converged


def test_numbers_of_samples_are_the_smallest_that_wilks_allows():
    def range_confidence(n):
        return 1 - n * LEVEL ** (n - 1) + (n - 1) * LEVEL**n

    assert range_confidence(SAMPLES_FOR_A_RANGE - 1) < LEVEL <= range_confidence(SAMPLES_FOR_A_RANGE)
    assert 1 - LEVEL ** (SAMPLES_FOR_A_PEAK - 1) < LEVEL <= 1 - LEVEL**SAMPLES_FOR_A_PEAK
    assert missed_share(100) == pytest.approx(3 / 100, rel=0.02)  # the rule of three


# The integral.


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


def integral_j(times_s, power_w):
    return PowerCurve(times_s, power_w, POWER, True).between(times_s[0], times_s[-1]).energy_j


def test_the_steps_need_not_be_equal():
    times_s = [0.0, 0.1, 4.0, 4.5, 10.0]
    assert integral_j(times_s, [40 * t for t in times_s]) == pytest.approx(2000.0)
    assert integral_j([1.0, 3.0], [100.0, 200.0]) == pytest.approx(300.0)


@pytest.mark.parametrize("power_w", [[], [5.0], [5.0, math.nan]])
def test_fewer_than_two_samples_have_no_energy(power_w):
    unknown = ChannelEnergy(POWER, range(len(power_w)), power_w).between(0.0, 1.0).unknown
    assert "fewer than two readings of power in the window, and has no counter" in unknown


def test_a_missing_sample_is_counted_and_its_neighbours_are_joined():
    estimate = ChannelEnergy(POWER, range(4), [100.0, math.nan, 300.0, 300.0]).between(0.0, 3.0)
    assert (estimate.samples, estimate.missing, estimate.covered_s) == (3, 1, 3.0)
    assert estimate.integral_j == pytest.approx(700.0)
    assert estimate.largest_gap_s == 2.0


@pytest.mark.parametrize("gap", [(4.0, 5.05), (4.99, 6.7), (12.4, 13.3), (12.999, 14.5), (4.5, 13.6)])
def test_a_gap_that_reaches_over_a_windows_edge_moves_no_energy_into_it(gap):
    times_s = [time_s for time_s in times(0.05, 20) if not gap[0] < time_s < gap[1]]
    for curve in (channel(times_s, lambda _: 100.0), channel(times_s, lambda _: 100.0, lambda t: 100.0 * t)):
        estimate = curve.between(5.0, 13.0)
        assert estimate.integral_j == pytest.approx(800.0)
        assert estimate.energy_j == pytest.approx(800.0)


def test_failed_readings_widen_the_interval():
    load, times_s = square(3.0), times(0.05, 20)
    lost = channel(times_s, lambda t: math.nan if 8 < t < 9 else load.power_w(t), info=POWER).between(5.0, 13.0)
    complete = channel(times_s, load.power_w, info=POWER).between(5.0, 13.0)
    assert abs(lost.energy_j - load.between_j(5.0, 13.0)) <= lost.uncertainty_j
    assert lost.uncertainty_j > complete.uncertainty_j
    assert (lost.missing, complete.missing) == (19, 0)


def test_two_readings_of_one_moment_are_no_trouble():
    times_s = [0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 3.0]
    counter_j = [0.0, 1.0, 5.0, 6.0, 12.0, 19.0, 20.0]
    curve = ChannelEnergy(
        COUNTED._replace(limit_w=700.0), times_s, [1.0, 5.0, 5.0, 7.0, 7.0, 7.0, 9.0], times_s, counter_j
    )
    estimate = curve.between(0.0, 3.0)
    assert estimate.integral_j == pytest.approx(5 + 7 + 7)
    assert math.isfinite(estimate.energy_j)


def test_time_without_samples_is_in_the_interval_up_to_the_peak():
    power_w = [100.0] * 80 + [math.nan] * 21
    estimate = ChannelEnergy(POWER._replace(limit_w=0.0), times(0.1, 10), power_w).between(0.0, 7.9)
    assert estimate.energy_j == pytest.approx(790.0)
    with_limit = ChannelEnergy(POWER, times(0.1, 10), power_w).between(0.0, 10.0)
    assert with_limit.energy_j == pytest.approx(1000.0)
    assert with_limit.covered_s == pytest.approx(7.9)
    assert with_limit.uncertainty_j >= 2.1 * 600


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("interval_s", [pytest.param(0.01, marks=pytest.mark.slow), 0.1])
@pytest.mark.parametrize("sensor", SENSORS)
def test_without_a_counter_the_interval_holds(sensor, interval_s, load):
    trials = [tried(sensor, "none", interval_s, 8.0, load, number) for number in range(40)]
    missed = [(number, one) for number, one in enumerate(trials) if not one.holds]
    assert len(missed) <= 3, missed


@pytest.mark.parametrize("counter", [name for name in COUNTERS if name != "none"])
@pytest.mark.parametrize("sensor", ["instant", "25 of 100 ms"])
def test_with_a_counter_the_interval_holds(sensor, counter):
    for load in LOADS:
        trials = [tried(sensor, counter, 0.1, 8.0, load, number) for number in range(8)]
        assert all(one.holds for one in trials), (load, trials)


def test_even_moments_may_all_err_in_one_direction():
    times_s = times(1.0, 100)
    samples_w = [100.0 if index % 2 else 500.0 for index in range(101)]
    even = ChannelEnergy(INFO, times_s, samples_w, random_phase=False).between(10.0, 90.0)
    by_chance = ChannelEnergy(INFO, times_s, samples_w, random_phase=True).between(10.0, 90.0)
    assert even.random_j == pytest.approx(0, abs=1e-6)
    assert even.systematic_j >= 80 * 200  # each step may have been as high, or as low, as its ends
    assert by_chance.uncertainty_j < even.uncertainty_j / 3


@pytest.mark.parametrize("held_s", [0.3, 1.0, 5.0])
def test_a_sensor_that_documents_how_long_it_holds_a_value_has_intervals_that_hold(held_s):
    info = INFO._replace(held_s=held_s, limit_w=LIMIT_W)

    def trial(chance):
        load = noise(chance, 140.0, 0.05)
        curve = channel(moments(chance, 6.0, 136.0, 0.1), renewed(load.power_w, held_s, chance.random()), info=info)
        return Trial(curve.between(8.0, 128.0), load.between_j(8.0, 128.0))

    check(trial)


# The counter.


def counted(load, chance, refresh_s=0.1, info=INFO, interval_s=0.1, end_s=30.0, edges_s=(), documented=True):
    """A channel with a counter that is read with each sample, and every 4 ms after the edges of a window."""
    counter_j = counter_of(load, refresh_s, refresh_s * chance.random())
    info = info._replace(
        has_counter=True, counter_resolution_j=0.001, counter_refresh_s=max(refresh_s, 1e-6) if documented else 0.0
    )
    times_s = moments(chance, 1.0, end_s, interval_s)
    power_w = loads.looking_now_and_then(load, 0.1 * chance.random()) if info.seen_share < 1 else load.power_w
    read_s = sorted([*times_s, *(edge_s + 0.004 * number for edge_s in edges_s for number in range(30))])
    samples_w = [power_w(time_s) for time_s in times_s]
    return ChannelEnergy(info, times_s, samples_w, read_s, [counter_j(time_s) for time_s in read_s], True)


@pytest.mark.parametrize(
    ("info", "refresh_s", "window_s", "widest"),
    [
        (BLIND, 0.1, 20.0, 0.005),  # NVML of an A100, H100 or H200
        (BLIND, 0.1, 60.0, 0.001),
        (INFO._replace(limit_w=LIMIT_W), 0.001, 20.0, 0.0005),  # AMD, RAPL
    ],
)
def test_windows_whose_edges_are_read_are_known_as_well_as_the_counter_is_renewed(info, refresh_s, window_s, widest):
    def trial(chance):
        load = training(chance, window_s + 20)
        curve = counted(load, chance, refresh_s, info, 0.1, window_s + 15, (8.0, 8.0 + window_s))
        return Trial(curve.between(8.0, 8.0 + window_s), load.between_j(8.0, 8.0 + window_s))

    done = check(trial, 20, held=1.0)
    assert widths(done) <= widest
    assert {one.estimate.method for one in done} == {"counter"}


def test_a_sound_counter_is_used_and_both_sources_are_reported():
    chance = random.Random(3)
    load = square(0.37)
    estimate = counted(load, chance).between(6.0, 14.0)
    assert (estimate.method, estimate.reason) == ("counter", "")
    assert estimate.energy_j == estimate.counter_j
    assert estimate.difference == pytest.approx((estimate.integral_j - estimate.counter_j) / estimate.counter_j)
    assert (estimate.random_j, estimate.systematic_j) == (0.0, estimate.uncertainty_j)
    assert estimate.integral_uncertainty_j > estimate.integral_systematic_j > 0


def with_counter(counter_j: Callable[[float], float], info=COUNTED, end_s=20.0):
    times_s = times(0.1, end_s)
    return ChannelEnergy(
        info, times_s, [100.0] * len(times_s), times_s, [counter_j(time_s) for time_s in times_s], True
    )


@pytest.mark.parametrize(
    ("counter_j", "fault", "faulty_s"),
    [
        (lambda t: math.nan, "could not be read", (0.0, 20.0)),
        (lambda t: 5.0, "stood still", (0.0, 20.0)),
        (lambda t: 100.0 * t if t < 8 else 100.0 * (t - 8), "fell", (7.9, 8.0)),
        (lambda t: 100.0 * min(t, 8.0), "stood still", (8.0, 20.0)),
        (lambda t: 100.0 * (t if t < 8 else max(8.0, t - 3)), "stood still for a while", (8.0, 11.1)),
        (lambda t: 100.0 * t + (5000.0 if t > 8 else 0.0), "jumped", (7.9, 8.1)),
    ],
)
def test_a_counter_at_fault_is_not_used_in_the_time_of_its_fault(counter_j, fault, faulty_s):
    curve = with_counter(counter_j, COUNTED._replace(limit_w=LIMIT_W))
    begin_s, end_s = faulty_s
    estimate = curve.between(5.0, 15.0)
    is_in_part = begin_s > 5.0
    assert estimate.method == ("counter+integral" if is_in_part else "integral")
    assert estimate.reason == f"the counter {fault}"
    assert abs(estimate.energy_j - 1000.0) <= min(5.0, estimate.uncertainty_j)
    assert math.isnan(estimate.counter_j) == math.isnan(estimate.difference) == (not is_in_part)
    within = curve.between(begin_s, end_s)
    assert (within.method, within.reason) == ("integral", f"the counter {fault}")
    if is_in_part:
        assert curve.between(1.0, 7.0).method == "counter"
    if end_s < 15.0:
        assert curve.between(end_s + 0.05, 15.0).method == "counter"


@pytest.mark.parametrize("load_name", ["squares", "ramps", "drift"])
@pytest.mark.parametrize("fault", ["loses 1 s", "is reset", "jumps by 1,000 J"])
def test_a_window_may_begin_or_end_at_a_fault(fault, load_name):
    for seed in range(20):
        chance = random.Random(seed)
        load, at_s = LOADS[load_name](chance, 40.0), 6 + chance.random()
        read_j = FAULTS[fault](counter_of(load, 0.1, 0.1 * chance.random()), at_s)
        info = POWER._replace(counter_refresh_s=0.1)
        curve = channel(moments(chance, 1.0, 30.0, 0.1), load.power_w, read_j, info)
        for from_s, to_s in ((-4, -0.02), (-4, 0.05), (-0.05, 8), (0.02, 8), (1.01, 9)):
            trial = Trial(curve.between(at_s + from_s, at_s + to_s), load.between_j(at_s + from_s, at_s + to_s))
            assert trial.holds, (seed, from_s, to_s, trial)


@pytest.mark.parametrize(("limit_w", "method"), [(0.0, ""), (LIMIT_W, "counter+integral")])
def test_without_power_a_fault_of_the_counter_is_bounded_by_the_limit(limit_w, method):
    info = COUNTED._replace(from_counter=True, limit_w=limit_w)
    estimate = with_counter(lambda t: 100.0 * t if t < 8 else 100.0 * (t - 8), info).between(5.0, 15.0)
    assert estimate.method == method
    assert ("has a counter alone, whose slope is its power, and the counter fell" in estimate.unknown) == (not method)
    assert not method or LIMIT_W / 2 * 0.1 < estimate.uncertainty_j < LIMIT_W * 0.5


@pytest.mark.parametrize("lost", [(10.0, 18.0), (4.0, 5.6)])
def test_a_counter_goes_on_while_it_cannot_be_read(lost):
    load = noise(random.Random(5), 40.0)
    times_s = moments(random.Random(6), 1.0, 30.0, 0.1)
    counter_j = counter_of(load)
    read_j = [math.nan if lost[0] < time_s < lost[1] else counter_j(time_s) for time_s in times_s]
    curve = ChannelEnergy(COUNTED, times_s, [load.power_w(time_s) for time_s in times_s], times_s, read_j, True)
    estimate = curve.between(5.0, 25.0)
    assert estimate.method == "counter"
    assert abs(estimate.energy_j - load.between_j(5.0, 25.0)) <= estimate.uncertainty_j <= 0.03 * estimate.energy_j


def test_where_power_can_no_longer_be_read_the_counter_is_used():
    times_s = times(0.1, 20)
    power_w = [100.0 if time_s < 8 else math.nan for time_s in times_s]
    counter_j = [150 * max(0.0, time_s - 8) + 100 * min(time_s, 8.0) for time_s in times_s]
    estimate = ChannelEnergy(COUNTED, times_s, power_w, times_s, counter_j, True).between(9.0, 11.0)
    assert (estimate.method, estimate.samples, estimate.missing, estimate.covered_s) == ("counter", 0, 21, 0.0)
    assert (estimate.in_wh()["integral_wh"], estimate.in_wh()["energy_wh"]) == (None, estimate.energy_j / 3600)
    assert abs(estimate.energy_j - 300) <= estimate.uncertainty_j
    assert estimate.largest_gap_s == estimate.duration_s
    stuck_j = [min(value_j, 900.0) for value_j in counter_j]
    unknown = ChannelEnergy(COUNTED, times_s, power_w, times_s, stuck_j, True).between(9.0, 11.0).unknown
    assert "fewer than two readings of power in the window, and the counter stood still" in unknown


@pytest.mark.parametrize("load_name", ["noise", "squares", "drift"])
@pytest.mark.parametrize("counter", ["none", "0.1 s"])
@pytest.mark.parametrize("call_s", [0.003, 0.03, 0.3, 0.7])
def test_the_interval_holds_for_a_value_of_any_moment_of_a_call(call_s, counter, load_name):
    trials = [tried(LIMITED, counter, 0.1, 8.0, load_name, number, call_s) for number in range(20)]
    assert sum(one.holds for one in trials) >= (18 if counter == "none" else 20)
    usual = [tried(LIMITED, counter, 0.1, 8.0, load_name, number) for number in range(20)]
    assert widths(trials) > widths(usual) or call_s < 0.01  # of other moments: the difference is smaller than by chance


# Inconsistent sources.


@pytest.mark.parametrize("factor", [1.5, 1.2, 0.6, 0.1, 10.0])
@pytest.mark.parametrize("period_s", [0.37, 3.0])
def test_a_counter_of_another_scale_is_not_used_and_the_interval_holds_both(period_s, factor):
    def trial(chance):
        load = square(period_s, chance.random())
        wrong = load._replace(energy_j=lambda time_s: factor * load.energy_j(time_s))
        times_s = moments(chance, 1.0, 60.0, 0.1)
        estimate = channel(times_s, load.power_w, counter_of(wrong)).between(10.0, 50.0)
        assert estimate.method == "integral"
        assert "and the interval contains both" in estimate.reason
        more = " W is above the highest reading of 500 W, so it counts more than the sensor sees"
        assert (more if factor == 10 else "they are inconsistent") in estimate.reason
        assert abs(estimate.counter_j - estimate.energy_j) <= estimate.uncertainty_j
        return Trial(estimate, load.between_j(10.0, 50.0))

    check(trial, 10, held=1.0)


def test_a_counter_within_the_sensors_accuracy_is_used():
    load = constant(300.0)
    times_s = times(0.1, 60)
    curve = channel(times_s, load.power_w, lambda time_s: 1.04 * load.energy_j(time_s))
    assert curve.between(10.0, 50.0).method == "counter"
    exact = channel(times_s, load.power_w, lambda t: 1.04 * load.energy_j(t), INFO._replace(accuracy=0.01))
    assert exact.between(10.0, 50.0).method == "integral"


NVML = BLIND._replace(has_counter=True, counter_resolution_j=0.001, counter_refresh_s=0.1)


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1.0, ""),
        (0.5, "a sensor that sees 25% of the time differs by +"),  # of two dies, it counts one
        (1.5, "is above the highest reading of 300 W, so it counts more than the sensor sees"),  # a module's counter
    ],
)
def test_a_counter_of_another_part_than_the_sensor_is_named(factor, words):
    times_s = times(0.1, 20)
    curve = channel(times_s, lambda _: 300.0, lambda t: factor * 300.0 * t, NVML)
    estimate = curve.between(5.0, 15.0)
    assert words in estimate.reason and bool(words) == bool(estimate.reason)
    assert estimate.method == ("integral" if factor > 1 else "counter")
    assert estimate.difference == pytest.approx(1 / factor - 1, rel=1e-3)
    assert estimate.energy_j - estimate.uncertainty_j <= factor * 3000 <= estimate.energy_j + estimate.uncertainty_j


# A sensor that serves old values.


def frozen(chance, load_name, begin_s, until_s, info=NVML, step_w=0.001, end_s=28.0):
    """A channel whose driver serves the readings of `begin_s` until `until_s`, and the load."""
    load = {**LOADS, "training": training}[load_name](chance, end_s + 2)
    counter_j, shown = counter_of(load, 0.1, 0.1 * chance.random()), (0.0, 0.0)
    read_s, rows = moments(chance, 1.0, end_s, 0.1), []
    for time_s in read_s:
        if not (rows and begin_s < time_s < until_s):
            watts = step_w * round((load.power_w(time_s) + chance.gauss(0, 0.5)) / step_w)
            shown = (watts, counter_j(time_s))
        rows.append(shown)
    counters_j = [joules for _, joules in rows] if info.has_counter else []
    watts = [watts for watts, _ in rows]
    return ChannelEnergy(info, read_s, watts, read_s if info.has_counter else (), counters_j, True), load


@pytest.mark.parametrize("load_name", ["noise", "squares", "bursts", "training"])
@pytest.mark.parametrize(("begin_s", "end_s"), [(9.0, 21.0), (16.0, 30.0), (0.0, 15.0)])
@pytest.mark.parametrize("info", [NVML, NVML._replace(seen_share=1.0, held_s=0.0)])
def test_a_driver_that_serves_old_values_is_found_and_the_interval_holds(info, begin_s, end_s, load_name):
    def trial(chance):
        curve, load = frozen(chance, load_name, begin_s, end_s, info)
        estimate = curve.between(4.0, 26.0)
        assert "readings of power were frozen at " in estimate.reason
        assert estimate.missing > 90
        assert "frozen" not in frozen(chance, load_name, 99.0, 99.0, info)[0].between(4.0, 26.0).reason
        return Trial(estimate, load.between_j(4.0, 26.0))

    check(trial, 10, held=1.0)


@pytest.mark.parametrize("load_name", ["squares", "drift"])
def test_without_a_counter_readings_that_repeat_where_those_of_their_level_never_do_are_a_gap(load_name):
    def trial(chance):
        curve, load = frozen(chance, load_name, 39.0, 51.0, POWER, end_s=150.0)
        estimate = curve.between(34.0, 56.0)
        assert "readings of power were frozen at " in estimate.reason
        return Trial(estimate, load.between_j(34.0, 56.0))

    check(trial, 10, held=1.0)
    unlimited, _ = frozen(random.Random(1), load_name, 39.0, 51.0, INFO, end_s=150.0)
    assert "more than 1% of its readings failed or were frozen" in unlimited.between(34.0, 56.0).unknown
    few, _ = frozen(random.Random(1), load_name, 2.0, 26.0, POWER)
    assert few.frozen == []  # 59 other readings show how a level varies


def with_pauses(chance, step_w, frozen_s, pauses=8, averaging_s=0.0):
    """A sensor in steps of `step_w` next to calm pauses of 10 s, in the same power each; it may serve old values."""
    edges_s, levels_w = [0.0], []
    for _ in range(pauses):
        for length_s, watts in ((10.0, 70.0), (chance.uniform(14, 18), 300.0)):
            edges_s.append(edges_s[-1] + length_s)
            levels_w.append(watts)
    load = levels(edges_s, levels_w)
    counter_j, end_s = counter_of(load, 0.1, 0.1 * chance.random()), edges_s[-1] - 1
    power_w = loads.averaged(load, averaging_s) if averaging_s else load.power_w
    frozen_s = frozen_s and (edges_s[8] + 11, edges_s[8] + 11 + frozen_s)  # within a busy time
    read_s, rows = moments(chance, averaging_s + 1.0, end_s, 0.1), []
    for time_s in read_s:
        if frozen_s and rows and frozen_s[0] < time_s < frozen_s[1]:
            rows.append(rows[-1])
            continue
        watts = power_w(time_s) + (chance.gauss(0, 8) if load.power_w(time_s) > 100 else 0.0)
        rows.append((step_w * round(watts / step_w), counter_j(time_s)))
    return read_s, [watts for watts, _ in rows], [joules for _, joules in rows], load


@pytest.mark.parametrize("step_w", [0.001, 1.0])
def test_a_freeze_is_found_next_to_longer_calm_pauses(step_w):
    def trial(chance):
        read_s, watts, joules, load = with_pauses(chance, step_w, 3.0)
        curve = ChannelEnergy(NVML._replace(resolution_w=step_w), read_s, watts, read_s, joules, True)
        [(start_s, end_s, _)] = curve.frozen
        assert end_s - start_s == pytest.approx(3.0, abs=0.4)
        window_s = start_s - 20, end_s + 20
        return Trial(curve.between(*window_s), load.between_j(*window_s))

    check(trial, 20, held=1.0)


@pytest.mark.parametrize("step_w", [0.001, 1.0, 5.0, 10.0])
@pytest.mark.parametrize(("info", "averaging_s"), [(NVML, 0.0), (POWER, 0.0), (POWER._replace(averaging_s=2.0), 2.0)])
def test_a_sound_sensor_with_calm_pauses_is_not_frozen(info, averaging_s, step_w):
    for seed in range(6):
        read_s, watts, joules, _ = with_pauses(random.Random(f"calm {seed}"), step_w, 0.0, 4, averaging_s)
        counted = (read_s, joules) if info.has_counter else ((), ())
        assert ChannelEnergy(info._replace(resolution_w=step_w), read_s, watts, *counted, True).frozen == [], seed


@pytest.mark.parametrize(("step_w", "noise_w"), [(0.001, 0.1), (0.08, 0.1), (1.0, 0.1), (1.0, 0.5), (5.0, 1.0)])
@pytest.mark.parametrize("held_s", [0.0, 1.0])
def test_a_steady_sensor_of_coarse_steps_is_not_frozen(held_s, step_w, noise_w):
    """It is idle, busy, and idle again for longer, while its temperature changes."""
    for seed in range(10):
        chance = random.Random(seed)
        level_w, read_s = 70 + chance.random(), moments(chance, 0.0, 100.0, 0.1)
        shown_w = []
        for time_s in read_s:
            busy_w = chance.gauss(300, 80) if 2 < time_s < 30 else 0.0
            watts = level_w - math.exp(-max(0.0, time_s - 30) / 20) + chance.gauss(0, noise_w) + max(0.0, busy_w)
            is_new = not shown_w or int(time_s / (held_s or 1e-9)) > int(read_s[len(shown_w) - 1] / (held_s or 1e-9))
            shown_w.append(step_w * round(watts / step_w) if is_new else shown_w[-1])
        assert ChannelEnergy(POWER, read_s, shown_w, random_phase=True).frozen == [], seed


def test_a_model_of_power_that_stays_at_its_limit_is_not_frozen():
    chance = random.Random(1)
    power_w = [*(chance.uniform(11.5, 12.0) for _ in range(70)), *[12.0] * 100, 11.0]
    read_s = [0.1 * index for index in range(len(power_w))]
    sensor, model = (POWER._replace(estimated=estimated) for estimated in (False, True))
    assert ChannelEnergy(sensor, read_s, power_w, random_phase=True).frozen
    estimate = ChannelEnergy(model, read_s, power_w, random_phase=True).between(6.0, 14.0)
    assert (estimate.unknown, round(estimate.energy_j)) == ("", 96)


def test_a_counter_that_stands_still_next_to_a_steady_power_makes_no_frozen_sensor():
    curve = with_counter(lambda t: 100.0 * min(t, 8.0), COUNTED._replace(limit_w=LIMIT_W, counter_refresh_s=0.1))
    assert curve.frozen == []
    assert curve.between(5.0, 15.0).energy_j == pytest.approx(1000.0, rel=0.01)


# Facts of a channel.


def supplied(chance: random.Random, starts_s: float) -> loads.Load:
    """A node's load that begins 2 to 12 s before a window."""
    return levels([0.0, starts_s - chance.uniform(2, 12), 600.0], [chance.uniform(100, 250), chance.uniform(800, 1500)])


@pytest.mark.parametrize("made", [supplied, lambda chance, _: training(chance, 600.0)])
@pytest.mark.parametrize("refresh_s", [1.0, 5.0])
@pytest.mark.parametrize("averaging_s", [1.0, 3.0, 10.0, 30.0])
def test_a_meter_that_states_its_averaging_time_has_intervals_that_hold(averaging_s, refresh_s, made):
    def trial(seed):
        chance = random.Random(f"meter {averaging_s} {refresh_s} {seed.random()}")
        start_s, step_w = 150 + chance.random(), chance.choice((0.1, 1.0, 10.0))
        window_s = start_s, start_s + (60.0 if refresh_s == 1 else 240.0)  # fewer than 59 readings are refused
        load = made(chance, start_s)
        shown = renewed(loads.averaged(load, averaging_s), refresh_s, refresh_s * chance.random())
        read_s = times(refresh_s, 500)[int(80 / refresh_s) : int(450 / refresh_s)]
        info = INFO._replace(averaging_s=averaging_s, held_s=refresh_s, resolution_w=step_w)
        curve = ChannelEnergy(info, read_s, [step_w * round(shown(time_s) / step_w) for time_s in read_s])
        return Trial(curve.between(*window_s), load.between_j(*window_s))

    check(trial, held=0.95)


def jittering(chance, load, least_s, most_s, end_s):
    """A counter with a new value after a random time."""
    renewed_s = [0.0]
    while renewed_s[-1] < end_s:
        renewed_s.append(renewed_s[-1] + chance.uniform(least_s, most_s))
    return lambda time_s: load.energy_j(renewed_s[bisect_right(renewed_s, time_s) - 1])


@pytest.mark.parametrize("interval_s", [0.1, 1.0])
@pytest.mark.parametrize(("least_s", "most_s"), [(0.02, 0.3), (0.1, 0.2)])
@pytest.mark.parametrize("load_name", ["noise", "squares", "drift"])
def test_a_counter_that_pauses_for_longer_than_it_states_has_intervals_that_hold(
    load_name, least_s, most_s, interval_s
):
    info = NVML._replace(seen_share=1.0, held_s=0.0)

    def trial(seed):
        chance = random.Random(f"pauses {load_name} {most_s} {interval_s} {seed.random()}")
        load, start_s = LOADS[load_name](chance, 120.0), 10 + chance.random()
        counter_j, read_s = jittering(chance, load, least_s, most_s, 121.0), moments(chance, 1.0, 119.0, interval_s)
        edges_s = [edge_s + 0.004 * number for edge_s in (start_s, start_s + 20) for number in range(30)]
        counted_s, power_w = sorted([*read_s, *edges_s]), list(map(load.power_w, read_s))
        curve = ChannelEnergy(info, read_s, power_w, counted_s, list(map(counter_j, counted_s)), True)
        return Trial(curve.between(start_s, start_s + 20), load.between_j(start_s, start_s + 20))

    assert widths(check(trial, held=0.94)) < 0.02


def test_readings_of_one_refresh_are_one_sample():
    times_s = times(0.1, 100)
    info = INFO._replace(held_s=1.0)
    few, enough = (ChannelEnergy(info, times_s[:end], [300.0] * end, random_phase=True) for end in (396, 1001))
    assert "has 40 readings and no power limit: 59 are needed" in few.between(5.0, 20.0).unknown
    assert enough.between(5.0, 20.0).unknown == ""
    limited = info._replace(limit_w=LIMIT_W)
    for end, lowest_w in ((901, 0.0), (941, 300.0)):  # 93 refreshes show a range
        assert ChannelEnergy(limited, times_s[:end], [300.0] * end).power.range_w(40.0, 50.0)[0] == lowest_w


@pytest.mark.parametrize(("interval_s", "window_s"), [(0.1, 20.0), (1.0, 60.0), (1.0, 100.0)])
def test_a_rare_burst_that_no_sample_shows_is_in_the_interval_up_to_the_limit(interval_s, window_s):
    def trial(chance):
        edges_s, levels_w = [0.0], []
        while edges_s[-1] < 170:
            for length_s, watts in ((chance.expovariate(1 / 15), 100.0), (chance.uniform(0.02, 0.3), 650.0)):
                edges_s.append(edges_s[-1] + length_s)
                levels_w.append(watts)
        load, start_s = levels(edges_s, levels_w), 10 + chance.random()
        curve = channel(moments(chance, 0.0, 160.0, interval_s), load.power_w, info=POWER)
        return Trial(curve.between(start_s, start_s + window_s), load.between_j(start_s, start_s + window_s))

    check(trial, held=0.95)


# Refusals.


def test_few_samples_need_a_limit_or_a_counter():
    times_s = times(1.0, SAMPLES_FOR_A_PEAK - 2)
    few = [300.0] * len(times_s)
    refused = ChannelEnergy(INFO, times_s, few, random_phase=True).between(5.0, 20.0)
    assert "has 58 readings and no power limit: 59 are needed" in refused.unknown
    assert math.isnan(refused.energy_j) and math.isnan(refused.avg_power_w)
    assert ChannelEnergy(POWER, times_s, few, random_phase=True).between(5.0, 20.0).energy_j == pytest.approx(4500)
    more = ChannelEnergy(INFO, times(1.0, SAMPLES_FOR_A_PEAK - 1), [*few, 300.0], random_phase=True)
    assert more.between(5.0, 20.0).energy_j == pytest.approx(4500)
    assert channel(times_s, lambda _: 300.0, lambda t: 300.0 * t).between(5.0, 20.0).method == "counter"


def test_a_sensor_that_is_blind_for_a_part_of_the_time_needs_a_counter_or_a_limit():
    times_s = times(0.1, 20)
    refused = channel(times_s, lambda _: 300.0, info=BLIND._replace(limit_w=0.0)).between(5.0, 15.0)
    assert "sees 25% of the time and has no power limit" in refused.unknown
    estimate = channel(times_s, lambda _: 300.0, info=BLIND).between(5.0, 15.0)
    assert estimate.uncertainty_j >= 0.75 * 10 * 400  # up to the limit of 700 W in the rest of the time


@pytest.mark.parametrize(("failing", "refused"), [(0.005, False), (0.05, True)])
def test_readings_that_fail_often_need_a_counter_or_a_limit(failing, refused):
    """It may be high power that makes readings fail."""
    times_s = times(0.01, 20)
    power_w = [math.nan if index % round(1 / failing) == 7 else 300.0 for index in range(len(times_s))]
    unknown = ChannelEnergy(INFO, times_s, power_w, random_phase=True).between(5.0, 15.0).unknown
    assert ("has no power limit, and more than 1% of its readings failed" in unknown) == refused == bool(unknown)
    estimate = ChannelEnergy(POWER, times_s, power_w, random_phase=True).between(5.0, 15.0)
    assert estimate.uncertainty_j > failing * 10 * 300


@pytest.mark.parametrize(
    ("times_s", "changed", "expected_s"),
    [
        ([0, 1, 2, 3], [], math.inf),
        ([0, 1, 2, 3], [2], math.inf),
        ([0, 1, 2, 3, 4, 5, 6], [2, 5], 4),  # from the reading before one change to the next change
        ([0, 1, 2, 3, 4, 6, 9], [2, 4, 6], 3),
        ([0, 1, 1, 2, 3], [2, 4], 2),  # two readings at the same moment
    ],
)
def test_the_refresh_interval_of_an_undocumented_counter_is_bounded_by_its_changes(times_s, changed, expected_s):
    counter_j = [float(sum(index >= at for at in changed)) for index in range(len(times_s))]
    for half_s in (0.0, 0.1):
        halves_s = [half_s] * len(times_s)
        curve = ChannelEnergy(COUNTED, times_s, [0.0] * len(times_s), times_s, counter_j, counter_half_s=halves_s)
        assert curve.counter.refresh_s == pytest.approx(expected_s + 2 * half_s)


def test_a_counter_that_counts_more_than_sampled_power_for_long_is_bounded_by_the_limit_alone():
    times_s = [index / 10 for index in range(200)]
    counter_j = [115 * time_s for time_s in times_s]  # between two values, a sensor that is off by 5 % allows for that
    info = COUNTED._replace(limit_w=LIMIT_W, counter_refresh_s=0.1)
    curve = ChannelEnergy(info, times_s, [100.0] * 200, times_s, counter_j, True)
    low_j, high_j, best_j = curve.counter.bounds_j(10.05)
    assert low_j == pytest.approx(115 * 10.0)
    assert high_j == pytest.approx(115 * 10.2 + 0.001)  # the first value of a later refresh
    assert best_j == pytest.approx(115 * 10.1)
    for window in ((19.9, 20.0), (-1.0, 0.0)):
        assert (curve.counter.parts(*window), curve.counter.fault(*window)) == ([], UNREAD)
    assert curve.counter.bounds_j(19.9)[0] == pytest.approx(115 * 19.9)  # the last value counts, too


def test_an_uncertainty_at_another_level_is_by_its_degrees_of_freedom():
    # 100 changes of 10 W over 0.1 s each, all alike: as many degrees of freedom.
    power = ChannelEnergy(POWER, [index / 10 for index in range(101)], [300.0, 310.0] * 50 + [300.0]).power
    for level in (0.95, 0.999):
        expected = students_t(level, 100) * math.sqrt(VARIANCE_OF_SQUARES * 100)
        assert power.sampled_j(0.0, 10.0, level) == pytest.approx(expected)
    assert ChannelEnergy(POWER, [0.0, 1.0, 2.0], [300.0] * 3).power.sampled_j(0.0, 2.0, 0.999) == 0


def test_few_samples_and_time_outside_of_them_bound_power_by_the_limit_alone():
    times_s = [index / 10 for index in range(200)]
    curve = ChannelEnergy(POWER, times_s, [100.0] * 200, random_phase=True).power
    assert curve.range_w(5.0, 15.0) == (100.0, 100.0)
    assert curve.range_w(-0.1, 15.0) == curve.range_w(5.0, 20.0) == (0.0, LIMIT_W)
    for number, lowest_w in ((SAMPLES_FOR_A_RANGE, 100.0), (SAMPLES_FOR_A_RANGE - 1, 0.0)):
        few = ChannelEnergy(POWER, times_s[:number], [100.0] * number, random_phase=True).power
        assert few.range_w(1.0, 2.0)[0] == lowest_w


# Components.


def test_accuracy_is_added_as_an_expanded_standard_uncertainty():
    estimate = channel(times(0.1, 20), lambda _: 300.0, info=POWER).between(5.0, 15.0)
    expected_j = math.hypot(estimate.uncertainty_j, 2 * 0.05 / math.sqrt(3) * 3000)
    assert estimate.with_accuracy_j(0.05) == pytest.approx(expected_j)
    assert estimate.with_accuracy_j(0.0) == estimate.uncertainty_j
    assert estimate.random_j + estimate.systematic_j == pytest.approx(estimate.uncertainty_j)
