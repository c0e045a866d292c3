"""Energy of many windows as one."""

from __future__ import annotations

import functools
import itertools
import math
import random

import pytest

from jpwr.energy import ChannelEnergy, EnergyEstimate, add_estimates, energy_of_passes, means_w
from jpwr.tests import loads
from jpwr.tests.loads import INFO, Trial, channel, counter_of, moments, noise, square
from jpwr.tests.trials import check

SLOW = INFO._replace(has_counter=True, counter_resolution_j=0.001, counter_refresh_s=0.1)


def counted(load, refresh_s, chance, interval_s=0.1, end_s=60.0):
    """A channel whose counter is renewed so often, read with power."""
    times_s = moments(chance, 1.0, end_s, interval_s)
    counter_j = counter_of(load, refresh_s, refresh_s * chance.random())
    return ChannelEnergy(
        SLOW,
        times_s,
        [load.power_w(time_s) for time_s in times_s],
        times_s,
        [counter_j(time_s) for time_s in times_s],
        True,
    )


def added(curve, windows):
    return functools.reduce(add_estimates, [curve.between(*window) for window in windows])


def trial_of(curve, windows, load):
    return Trial(energy_of_passes(curve, windows), math.fsum(load.between_j(*window) for window in windows))


def passes(number, length_s, pause_s=0.0, start_s=5.0):
    starts_s = [start_s + index * (length_s + pause_s) for index in range(number + 1)]
    return [(begin_s, next_s - pause_s) for begin_s, next_s in itertools.pairwise(starts_s)]


@pytest.mark.parametrize("refresh_s", [0.0, pytest.param(0.02, marks=pytest.mark.slow), 0.1])
@pytest.mark.parametrize(("step_s", "pause_s"), [(0.3, 0.0), (0.3, 0.0005), (0.5, 0.002), (0.101, 0.0)])
def test_the_interval_of_steps_in_a_row_is_that_of_the_window_around_them(refresh_s, step_s, pause_s):
    def trial(chance):
        load = square(step_s + pause_s, duty=0.7)
        curve = (
            counted(load, refresh_s, chance) if refresh_s else channel(moments(chance, 1.0, 60.0, 0.1), load.power_w)
        )
        windows = passes(int(40 / step_s), step_s, pause_s)
        found, _ = done = trial_of(curve, windows, load)
        whole = curve.between(windows[0][0], windows[-1][1])
        between_j = loads.HIGH_W * pause_s * (len(windows) - 1)
        # Without a pause, the passes are the whole window; with one, the sum is corrected by nothing.
        expected_j = added(curve, windows).energy_j if pause_s else whole.energy_j
        assert found.energy_j == pytest.approx(expected_j)
        off_j = abs(found.energy_j - whole.energy_j)
        assert found.uncertainty_j <= 1.01 * (whole.uncertainty_j + between_j + off_j)
        assert found.systematic_j <= found.uncertainty_j
        return done

    check(trial, 20, held=0.95)


def test_two_passes_without_a_pause_are_one_window():
    chance = random.Random(4)
    curve = counted(noise(chance, 60.0), 0.1, chance)
    whole, found = curve.between(10.0, 30.0), energy_of_passes(curve, [(10.0, 20.0), (20.0, 30.0)])
    assert found.uncertainty_j == whole.uncertainty_j < added(curve, [(10.0, 20.0), (20.0, 30.0)]).uncertainty_j
    assert repr(energy_of_passes(curve, [(10.0, 30.0)])) == repr(whole)


def test_steps_far_from_each_other_are_added_up():
    chance = random.Random(4)
    load = noise(chance, 60.0)
    for curve in (counted(load, 0.1, chance), channel(moments(chance, 1.0, 60.0, 0.1), load.power_w)):
        windows = passes(30, 0.5, 1.0)
        assert repr(energy_of_passes(curve, windows)) == repr(added(curve, windows))  # nan is not equal


def test_the_interval_of_rows_with_pauses_between_them_is_that_of_the_rows():
    load = square(0.3, duty=0.7)
    curve = counted(load, 0.1, random.Random(5))
    rows = [passes(30, 0.3, start_s=start_s) for start_s in (5.0, 20.0, 40.0)]
    found = energy_of_passes(curve, [window for row in rows for window in row])
    expected = added(curve, [(row[0][0], row[-1][1]) for row in rows])
    assert found.uncertainty_j == pytest.approx(expected.uncertainty_j, rel=1e-6)
    assert found.energy_j == pytest.approx(expected.energy_j)
    assert found.integral_uncertainty_j == pytest.approx(expected.integral_uncertainty_j, rel=1e-6)


@pytest.mark.parametrize("limit_w", [0.0, 700.0])
@pytest.mark.parametrize("refresh_s", [0.0, 0.01])
def test_the_peak_of_means_is_no_limit_to_what_is_used_between_passes(refresh_s, limit_w):
    """A mean over a second hides that a pause of 30 ms takes eight times the power of the second around it."""
    edges_s = [0.0, *itertools.accumulate([0.97, 0.03] * 45)]
    load = loads.levels(edges_s, [90.0, 690.0] * 45)
    info = INFO._replace(averaging_s=1.0, limit_w=limit_w)
    if refresh_s:
        info = info._replace(has_counter=True, counter_resolution_j=0.001, counter_refresh_s=refresh_s)

    def trial(chance):
        counter_j = counter_of(load, refresh_s, refresh_s * chance.random()) if refresh_s else None
        curve = channel(moments(chance, 1.0, 44.0, 0.1), loads.averaged(load, 1.0), counter_j, info)
        return trial_of(curve, [(float(second), second + 0.97) for second in range(5, 36)], load)

    check(trial, 20, held=0.95)


def test_passes_are_known_where_what_is_between_them_is_not():
    """A sensor that looks at a part of the time tells nothing alone, and its counter falls between two passes."""
    chance = random.Random(3)
    info = SLOW._replace(seen_share=0.25, counter_refresh_s=0.0, averaging_s=0.025, held_s=0.1)
    times_s = moments(chance, 1.0, 50.0, 0.1)
    counter_j = [300.0 * (time_s if time_s < 20 else time_s - 10) for time_s in times_s]
    power_w = [300 + chance.gauss(0, 20) for _ in times_s]
    curve = ChannelEnergy(info, times_s, power_w, times_s, counter_j, True)
    windows = [*passes(20, 0.002, 0.498, 5.0), *passes(20, 0.002, 0.498, 25.0)]
    found = energy_of_passes(curve, windows)
    assert (found.method, found.energy_j) == ("counter", pytest.approx(300 * 0.002 * 40, rel=0.05))


@pytest.mark.parametrize("stall_s", [0.0, 0.3])
def test_a_counter_that_was_late_once_is_in_the_interval_of_passes_in_step_with_the_load(stall_s):
    def trial(chance):
        load = loads.levels([0.0, *itertools.accumulate([0.1, 0.2] * 150)], [480.0, 120.0] * 150)
        times_s = moments(chance, 1.0, 44.0, 0.1)
        counted_s = [20.0 if 20.0 < time_s < 20.0 + stall_s else time_s for time_s in times_s]
        counter_j = [counter_of(load)(time_s) for time_s in counted_s]
        info = SLOW._replace(counter_refresh_s=0.0)
        curve = ChannelEnergy(info, times_s, [load.power_w(time_s) for time_s in times_s], times_s, counter_j, True)
        return trial_of(curve, [(0.3 * number, 0.3 * number + 0.1) for number in range(20, 120)], load)

    check(trial, 20, held=0.95)


@pytest.mark.parametrize("refresh_s", [0.02, 0.05])
def test_a_counter_may_be_late_by_the_same_in_all_passes(refresh_s):
    def trial(chance):
        load = square(0.3, duty=0.3)
        windows = [(0.3 * number, 0.3 * number + 0.09) for number in range(20, 180)]
        done = trial_of(counted(load, refresh_s, chance), windows, load)
        assert done.estimate.method == "counter+integral"  # a pass of 0.09 s may be without a reading of the counter
        return done

    check(trial, 20, held=0.95)


@pytest.mark.parametrize("are_edges_read", [True, False])
def test_passes_between_two_samples_go_by_the_counter_as_those_with_a_sample_do(are_edges_read):
    """By the integral they would all be too low: power is high in passes, and samples around them are in pauses."""
    for seed in range(10):
        chance = random.Random(seed)
        windows = passes(150, 0.05, 0.05)
        load = loads.levels([0.0, *itertools.chain(*windows)], [120.0, *[480.0, 120.0] * 150])
        times_s, counter_j = moments(chance, 1.0, 30.0, 0.1), counter_of(load, 0.001, 0.001 * chance.random())
        edges_s = itertools.chain(*((start_s - 2e-5, end_s + 2e-5) for start_s, end_s in windows))
        read_s = sorted([*times_s, *edges_s]) if are_edges_read else times_s
        power_w, read_j = map(load.power_w, times_s), map(counter_j, read_s)
        info = SLOW._replace(counter_refresh_s=0.001)
        found = energy_of_passes(ChannelEnergy(info, times_s, [*power_w], read_s, [*read_j], True), windows)
        assert found.method == "counter"
        assert abs(found.energy_j - 150 * 0.05 * 480) <= found.uncertainty_j
        assert found.uncertainty_j <= (0.08 if are_edges_read else 0.85) * found.energy_j


@pytest.mark.parametrize(("length_s", "pause_s"), [(0.02, 0.05), (0.05, 0.05), (0.2, 0.1)])
def test_both_edges_of_a_pass_between_two_samples_are_in_its_interval(length_s, pause_s):
    def trial(chance):
        windows = passes(150, length_s, pause_s)
        load = loads.levels([0.0, *itertools.chain(*windows)], [120.0, *[480.0, 120.0] * 150])
        info = INFO._replace(limit_w=700.0)
        return trial_of(channel(moments(chance, 1.0, 55.0, 0.1), load.power_w, info=info), windows, load)

    check(trial, 20, held=0.95)


def test_short_passes_use_no_more_than_all_of_the_time():
    """Of each alone a mean over a second tells nothing, and all of them lie in 5 s."""
    load, info = square(0.05, duty=0.5), INFO._replace(averaging_s=1.0)
    curve = channel(moments(random.Random(9), 1.0, 60.0, 0.1), loads.averaged(load, 1.0), info=info)
    windows = passes(100, 0.02, 0.03)
    found, whole = energy_of_passes(curve, windows), curve.between(windows[0][0], windows[-1][1])
    most_j = max(found.energy_j, whole.energy_j + whole.uncertainty_j - found.energy_j)
    assert added(curve, windows).uncertainty_j > 2 * most_j
    assert found.uncertainty_j == pytest.approx(most_j, rel=1e-9)
    assert abs(found.energy_j - math.fsum(load.between_j(*window) for window in windows)) <= found.uncertainty_j
    assert found.systematic_j <= found.uncertainty_j


def test_pauses_between_passes_may_use_up_to_peak_power():
    """No sample need have seen it there."""
    windows = passes(100, 0.3, 0.004)
    whole_s = (windows[0][0], windows[-1][1])
    curve = channel(moments(random.Random(6), 1.0, 60.0, 0.1), square(0.304, duty=0.7).power_w)
    found, whole = energy_of_passes(curve, windows), curve.between(*whole_s)
    low_j = whole.energy_j - whole.uncertainty_j - 99 * 0.004 * curve.power.range_w(*whole_s)[1]
    furthest_j = max(found.energy_j - low_j, whole.energy_j + whole.uncertainty_j - found.energy_j)
    assert found.uncertainty_j <= furthest_j < added(curve, windows).uncertainty_j


def test_a_row_in_which_the_counter_is_used_in_parts_only_is_added_up():
    """It loses three seconds: these go by the integral."""
    load = square(0.3, duty=0.7)
    times_s = moments(random.Random(7), 1.0, 60.0, 0.1)
    counter_j = counter_of(load, 0.1, 0.05)
    lost_j = counter_j(33.0) - counter_j(30.0)
    stuck_j = [counter_j(min(time_s, 30.0)) if time_s < 33.0 else counter_j(time_s) - lost_j for time_s in times_s]
    curve = ChannelEnergy(SLOW, times_s, [load.power_w(time_s) for time_s in times_s], times_s, stuck_j, True)
    windows = passes(120, 0.3)
    found = energy_of_passes(curve, windows)
    assert added(curve, windows).method == "counter+integral"
    assert curve.between(windows[0][0], windows[-1][1]).method == "counter+integral"
    assert curve.between(30.5, 32.5).method == "integral"
    assert abs(found.energy_j - math.fsum(load.between_j(*window) for window in windows)) <= found.uncertainty_j


def test_passes_at_once_do_not_average_out():
    chance = random.Random(8)
    curve = channel(moments(chance, 1.0, 60.0, 0.1), noise(chance, 60.0).power_w)
    one = curve.between(5.0, 13.0)
    found = energy_of_passes(curve, [(5.0, 13.0), (5.0, 13.0), (5.5, 13.5), (13.5, 14.0)])
    both = [one, one, curve.between(5.5, 13.5), curve.between(13.5, 14.0)]
    assert repr(found) == repr(functools.reduce(functools.partial(add_estimates, overlap=True), both))


def test_a_pass_without_samples_leaves_no_sum():
    curve = channel([1.0, 1.1, 1.2], lambda time_s: 100.0)
    assert energy_of_passes(curve, [(1.0, 1.1), (5.0, 6.0)]).unknown
    assert energy_of_passes(curve, []).unknown


def test_two_windows_add_up_in_each_of_their_numbers():
    # Sampling of 3 J and 4 J is independent, of the integral 6 J and 8 J; what lasts adds up.
    numbers = {
        "energy_j": (100.0, 300.0, 400.0),
        "uncertainty_j": (13.0, 5.0, 16.0),
        "systematic_j": (10.0, 1.0, 11.0),
        "method": ("counter", "integral", "counter+integral"),
        "reason": ("", "it fell", "it fell"),
        "duration_s": (2.0, 3.0, 5.0),
        "covered_s": (1.5, 3.0, 4.5),
        "samples": (20, 30, 50),
        "missing": (1, 2, 3),
        "largest_gap_s": (0.2, 0.1, 0.2),
        "integral_j": (90.0, 300.0, 390.0),
        "integral_uncertainty_j": (26.0, 8.5, 30.5),
        "integral_systematic_j": (20.0, 0.5, 20.5),
        "counter_j": (100.0, 320.0, 420.0),
        "counter_low_j": (98.0, 310.0, 408.0),
        "counter_high_j": (103.0, 325.0, 428.0),
        "difference": (-0.1, -0.0625, pytest.approx(-30 / 420)),
    }
    first, second, expected = (EnergyEstimate(**dict(zip(numbers, column))) for column in zip(*numbers.values()))
    for both in (add_estimates(first, second), add_estimates(second, first)):
        assert both == expected
        assert both.avg_power_w == 80.0
    twice = add_estimates(first, first)
    assert (twice.method, twice.reason) == ("counter", "")


@pytest.mark.parametrize("load_name", ["noise", "ramps"])
def test_mean_powers_of_parts_are_those_of_energies_until_their_edges(load_name):
    chance = random.Random(5)
    load = loads.LOADS[load_name](chance, 40.0)
    power = channel(moments(chance, 2.0, 38.0, 0.1), load.power_w).power
    edges_s = sorted([0.0, 1.0, 1.5, 38.5, 39.0, *(chance.uniform(0.0, 40.0) for _ in range(200))])
    until_j = list(map(power.until_j, edges_s))
    expected_w = [(b_j - a_j) / (b - a) for a, b, a_j, b_j in zip(edges_s, edges_s[1:], until_j, until_j[1:])]
    assert means_w(power, edges_s) == pytest.approx(expected_w, rel=1e-9)
