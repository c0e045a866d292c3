"""What holds of energy whatever was read."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jpwr.backends.rapl import counter_step
from jpwr.channel import ChannelInfo, Scope
from jpwr.energy import ChannelEnergy
from jpwr.energy.power import PowerCurve

COUNTED = ChannelInfo("counted", Scope.DEVICE, "", has_counter=True, counter_resolution_j=0.001, limit_w=700.0)

POWERS_W = st.lists(st.floats(50, 700), min_size=12, max_size=60)
SHARES = st.tuples(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0.05, 0.95)).map(sorted)
SEEDS = st.integers(0, 2**32)


def moments(seed: int, number: int, interval_s: float = 0.1) -> list[float]:
    chance = random.Random(seed)
    return [(tick + 0.9 * chance.random()) * interval_s for tick in range(number)]


def counted(times_s, powers_w):
    """A counter that is right, if power goes in straight lines."""
    curve = PowerCurve(times_s, powers_w, COUNTED, True)
    counter_j = [curve.until_j(time_s) for time_s in times_s]
    return ChannelEnergy(COUNTED, times_s, powers_w, times_s, counter_j, True)


def inside(times_s, share):
    return times_s[0] + share * (times_s[-1] - times_s[0])


@given(POWERS_W, SHARES, SEEDS)
def test_the_parts_of_a_window_add_up(powers_w, shares, seed):
    times_s = moments(seed, len(powers_w))
    channel = counted(times_s, powers_w)
    first_s, middle_s, last_s = (inside(times_s, share) for share in shares)
    if not first_s < middle_s < last_s:
        return
    whole, *parts = (
        channel.between(*edges_s) for edges_s in ((first_s, last_s), (first_s, middle_s), (middle_s, last_s))
    )
    assert sum(part.integral_j for part in parts) == pytest.approx(whole.integral_j)
    counted_j = sum(part.counter_j for part in parts)
    assert abs(counted_j - whole.counter_j) <= sum(part.uncertainty_j for part in parts) + 1e-6


@given(POWERS_W, SHARES, SEEDS, st.integers(2, 9))
def test_a_finer_trace_of_the_same_power_lies_within_the_interval(powers_w, shares, seed, parts):
    # Between two of the coarse samples, at equal distances, power goes from one to the other, in any way that it likes.
    chance = random.Random(seed)
    coarse_s = [0.1 * tick for tick in range(len(powers_w))]
    fine_s, fine_w = [], []
    for tick, (before_w, after_w) in enumerate(zip(powers_w, powers_w[1:])):
        shares_of_way = [0.0, *sorted(chance.random() ** 3 for _ in range(parts - 1))]
        fine_s += [0.1 * (tick + part / parts) for part in range(parts)]
        fine_w += [before_w + share * (after_w - before_w) for share in shares_of_way]
    fine_s.append(coarse_s[-1])
    fine_w.append(powers_w[-1])
    first_s, _, last_s = (0.1 * round(inside(coarse_s, share) / 0.1) for share in shares)
    if last_s - first_s < 0.05:
        return
    coarse = PowerCurve(coarse_s, powers_w, COUNTED, False).between(first_s, last_s)
    fine = PowerCurve(fine_s, fine_w, COUNTED, False).between(first_s, last_s)
    assert abs(fine.energy_j - coarse.energy_j) <= coarse.random_j + coarse.systematic_j + 1e-6


@given(POWERS_W, SHARES, SEEDS, st.sets(st.integers(0, 59), min_size=1, max_size=8))
@example([50.0, 124.0, *[50.0] * 20], [0.0625, 0.5, 0.9375], 0, {0})  # beside the window
@example([50.0] * 12, [0.0625, 0.25, 0.25], 0, {0})
def test_missing_samples_do_not_shrink_the_interval(powers_w, shares, seed, lost):
    # The trace has seen how low and how high power goes, as one with an idle time and a start-up has.
    around_w = [50.0, 700.0] * 10
    powers_w = [*around_w, *powers_w, *around_w]
    times_s = moments(seed, len(powers_w))
    lost = {len(around_w) + index % (len(powers_w) - 2 * len(around_w)) for index in lost}
    holed_w = [float("nan") if index in lost else watts for index, watts in enumerate(powers_w)]
    first_s, _, last_s = (inside(times_s[20:-20], share) for share in shares)
    if last_s - first_s < 0.01:
        return
    curves = (PowerCurve(times_s, watts, COUNTED, True) for watts in (powers_w, holed_w))
    complete, holed = (curve.between(first_s, last_s) for curve in curves)
    # The usual change of power is found from fewer samples, and no interval goes beyond the highest power.
    half_j, most_j = holed.random_j + holed.systematic_j, 700.0 * (last_s - first_s)
    is_all_there_can_be = holed.energy_j + half_j >= 0.999 * most_j
    assert is_all_there_can_be or half_j >= 0.95 * (complete.random_j + complete.systematic_j)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=50), st.integers(2**16, 2**32))
def test_a_counter_that_has_wrapped_around_counts_as_one_that_has_not(steps, counter_range):
    steps = [step % counter_range for step in steps]
    total, shown = 0, [0]
    for step in steps:
        shown.append((shown[-1] + step) % counter_range)
    for before, after in zip(shown, shown[1:]):
        total += counter_step(before, after, counter_range)
    assert total == sum(steps)
