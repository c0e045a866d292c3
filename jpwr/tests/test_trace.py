"""Traces: readings by channel and row, windows, idle power, and regions from marks."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.energy import ChannelEnergy
from jpwr.errors import NotEnoughSamples
from jpwr.trace.trace import BACKWARDS, NEVER_BEGUN, NEVER_ENDED, Region, Trace

POWER = ChannelInfo("power", Scope.DEVICE, "", limit_w=700.0)
COUNTED = ChannelInfo(
    "counted", Scope.DEVICE, "", has_counter=True, counter_resolution_j=0.001, counter_refresh_s=1e-6, limit_w=700.0
)


def test_a_channel_has_power_and_counter_at_moments_of_their_own():
    trace = Trace([COUNTED])
    for row in ([0.0, 1.0, 0.0], [1.0, 2.0, None], [1.5, None, 7.0], [2.0, 3.0, 8.0]):
        trace.append(row[0], [row[1]], [row[2]])
    [series] = trace.series()
    assert (list(series.times_s), list(series.power_w)) == ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    assert list(series.counter_times_s) == [0.0, 1.5, 2.0]
    assert list(series.energy_j) == [0.0, 7.0, 8.0]


def test_columns_share_their_times_as_long_as_they_are_read_in_the_same_rows():
    infos = [COUNTED, COUNTED._replace(name="slow"), POWER]
    trace = Trace(infos)
    for row in range(6):
        slow = row % 3 == 0 or None
        trace.append(float(row), [1.0, slow and 2.0, 3.0], [4.0, slow and 5.0, None], 0.5 if row > 3 else 0.0)
        if row in (2, 4):
            trace.series()  # stores the rows so far
    fast, slow, power = trace.series()
    assert list(fast.times_s) == list(fast.counter_times_s) == list(power.times_s) == [0, 1, 2, 3, 4, 5]
    assert list(fast.half_s) == list(fast.counter_half_s) == list(power.half_s) == [0, 0, 0, 0, 0.5, 0.5]
    assert list(slow.times_s) == list(slow.counter_times_s) == [0, 3]
    assert (list(slow.half_s), list(slow.power_w), list(slow.energy_j)) == ([0, 0], [2, 2], [5, 5])
    assert len({id(moments) for moments in trace._moments}) == 2


def step_ramp() -> Trace:
    """10 W more each second, for ten seconds; the second channel is read every other second only."""
    trace = Trace([COUNTED, POWER])
    for second in range(11):
        trace.append(second, [10.0 * second, 5.0 if second % 2 == 0 else None], [5.0 * second**2, None])
    return trace


def test_a_window_between_samples_has_interpolated_edges():
    counted, power = step_ramp().energies(2.5, 4.25)
    # Power is a straight line between samples, and so is the counter.
    assert counted.integral_j == pytest.approx(5 * (4.25**2 - 2.5**2))
    assert counted.counter_j == pytest.approx(12.5 + 35 + 11.25)
    assert power.integral_j == pytest.approx(1.75 * 5)
    assert (counted.samples, power.samples) == (2, 1)


def test_idle_power_needs_three_samples_in_the_second_half_of_its_time():
    for samples in (3, 4, 5, 7):
        trace = step_ramp()
        trace.event("command_started", samples - 1.0)
        idle_w, _ = map(trace.idle_power_w, trace.curves())
        assert math.isnan(idle_w) == (samples < 5)
        assert samples < 5 or idle_w == pytest.approx(10 * 0.75 * (samples - 1))


@pytest.mark.parametrize("random_phase", [True, False])
def test_a_trace_reports_whether_its_samples_are_at_random_moments(random_phase):
    chance = random.Random(4)
    rows = [(0.1 * row, chance.choice([100.0, 300.0])) for row in range(200)]
    trace = Trace([POWER], {"random_phase": random_phase})
    for time_s, power_w in rows:
        trace.append(time_s, [power_w], [None])
    [found] = trace.energies(2.0, 18.0)
    plain = ChannelEnergy(POWER, *zip(*rows), (), (), random_phase=random_phase).between(2.0, 18.0)
    other = ChannelEnergy(POWER, *zip(*rows), (), (), random_phase=not random_phase).between(2.0, 18.0)
    assert found == plain or repr(found) == repr(plain)  # nan is not itself
    assert found.uncertainty_j != other.uncertainty_j


@pytest.mark.parametrize("window", [(-1.0, 5.0), (5.0, 10.5), (math.nan, 5.0), (7.0, 5.0)])
def test_a_window_that_the_trace_does_not_reach_over_is_refused(window):
    with pytest.raises(NotEnoughSamples, match=r"not covered by the trace, which has 0\.000 s to 10\.000 s: start"):
        step_ramp().energies(*window)
    with pytest.raises(NotEnoughSamples, match="not covered by the trace, which has nothing: start"):
        Trace([POWER]).energies(*window)


def test_a_window_of_no_length_is_covered_and_has_no_energy():
    with pytest.raises(NotEnoughSamples) as told:
        step_ramp().energies(5.0, 5.0)
    assert "not covered" not in str(told.value)


def test_regions_repeat_and_lie_in_each_other_and_marks_that_make_none_are_reported():
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
        ("begin", "backwards", 9.0),
        ("end", "backwards", 8.5),
        ("end", "never begun", 9.5),
        ("begin", "moment", 10.0),
        ("end", "moment", 10.0),
        ("begin", "backwards", 12.0),
        ("end", "backwards", 11.0),
    ]:
        trace.event(f"region_{kind}", time_s, region=name)
    assert trace.regions() == [
        Region("step", 1.0, 2.0),
        Region("step", 3.5, 4.0),
        Region("step", 3.0, 5.0),
        Region("epoch", 0.0, 6.0),
        Region("moment", 10.0, 10.0),
    ]
    assert trace.faulty_marks() == {
        NEVER_ENDED: {"never ended": 1},
        NEVER_BEGUN: {"never begun": 2},
        BACKWARDS: {"backwards": 2},
    }


def marked(*marks):
    trace = Trace([POWER])
    for kind, time_s in marks:
        trace.event(f"region_{kind}", time_s, region="step")
    return trace


def test_marks_of_several_who_go_through_a_region_may_come_late():
    in_time = [("begin", 1.0), ("begin", 2.0), ("end", 3.0), ("begin", 3.5), ("end", 4.0), ("end", 5.0)]
    for order in itertools.permutations(in_time):
        trace = marked(*order)
        assert trace.faulty_marks() == {}
        assert math.fsum(end_s - start_s for _, start_s, end_s in trace.regions()) == pytest.approx(5.5)
    for order in itertools.permutations([*in_time[:3], ("begin", 6.0)]):
        assert marked(*order, *in_time[3:]).faulty_marks() == {NEVER_ENDED: {"step": 1}}


def test_marks_of_a_clock_that_is_wrong_make_no_region_of_one_pass_and_the_next():
    trace = marked(("begin", 2.0), ("end", 1.0), ("begin", 5.0), ("end", 4.0), ("begin", 8.0), ("end", 7.0))
    assert (trace.regions(), trace.faulty_marks()) == ([], {BACKWARDS: {"step": 3}})
