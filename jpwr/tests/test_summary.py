"""What a person and a program are told of a trace, to the letter."""

from __future__ import annotations

import math
import random

import pytest

from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.energy import EnergyEstimate
from jpwr.report.summary import MANY, Summary
from jpwr.report.sums import RegionSum
from jpwr.tests.loads import moments, square
from jpwr.trace.trace import Trace

COUNTED = ChannelInfo(
    "gpu:0",
    Scope.MODULE,
    "a counter",
    device_id="GPU-1",
    num_devices=2,
    has_counter=True,
    counter_resolution_j=0.001,
    counter_refresh_s=0.001,
    limit_w=700.0,
    accuracy=0.05,
    accuracy_from="assumed",
)
MODELLED = ChannelInfo("cpu", Scope.CPU, "a model", estimated=True, averaging_s=1.0, held_s=0.75, limit_w=100.0)
LOST = ChannelInfo("gpu:1", Scope.DEVICE, "lost", mine=False, period_s=0.8, held_s=0.2)
INFOS = (COUNTED, MODELLED, LOST)
IDLE_W, BUSY_W, MODEL_W = 100.0, 360.0, 72.0
START_S, BEGUN_S, ENDED_S, END_S = 10.0, 15.0, 29.0, 30.0

BY_COUNTER = EnergyEstimate(
    energy_j=7200.0,
    uncertainty_j=36.0,
    method="counter",
    reason="",
    duration_s=20.0,
    covered_s=19.0,
    samples=41,
    missing=3,
    largest_gap_s=1.5,
    integral_j=7056.0,
    integral_uncertainty_j=180.0,
    counter_j=7200.0,
    difference=-0.02,
    systematic_j=12.0,
    integral_systematic_j=90.0,
)
BY_INTEGRAL = EnergyEstimate(
    energy_j=3600.0,
    uncertainty_j=50.0,
    method="integral",
    reason="the counter stood still",
    duration_s=30.0,
    covered_s=28.0,
    samples=60,
    missing=4,
    largest_gap_s=2.5,
    integral_j=3600.0,
    integral_uncertainty_j=50.0,
    counter_j=math.nan,
    difference=math.nan,
    systematic_j=20.0,
    integral_systematic_j=20.0,
)
UNKNOWN = EnergyEstimate(unknown="has too few readings")


UNCHECKED = "too much to check the counter: sample faster or run longer"  # of so few samples


def trace_of(regions=(), infos=INFOS, command=True, **meta):
    """A reading each half second from 10 to 30 s; idle until second 15. The lost device is read once, at 20 s."""
    trace = Trace(infos, {"interval_s": 0.5, **meta})
    for time_s in (START_S + row / 2 for row in range(41)):
        busy_s = max(0.0, time_s - BEGUN_S)
        counter_j = IDLE_W * (time_s - START_S - busy_s) + BUSY_W * busy_s
        readings = {
            COUNTED.name: (BUSY_W if time_s >= BEGUN_S else IDLE_W, counter_j),
            MODELLED.name: (MODEL_W, None),
            LOST.name: (5.0 if time_s == 20.0 else None, None),
        }
        trace.append(time_s, [readings[info.name][0] for info in infos], [readings[info.name][1] for info in infos])
    if command:
        trace.event("command_started", BEGUN_S)
    for name, start_s, end_s in regions:
        trace.event("region_begin", start_s, region=name)
        trace.event("region_end", end_s, region=name)
    if command:
        trace.event("command_ended", ENDED_S)
    return trace


def told(*regions):
    """A summary of made-up estimates."""
    summary = Summary(trace_of(random_phase=True))
    summary.command = [BY_COUNTER, BY_INTEGRAL, UNKNOWN]
    summary.regions = {region.name: region for region in regions}
    return summary


STEP = RegionSum("a step", 3, 12.3456, 2.0, [BY_COUNTER, BY_INTEGRAL, UNKNOWN])


def test_the_table():
    warm = RegionSum("warm", 2, 2.0, 1.0, [UNKNOWN, BY_INTEGRAL._replace(energy_j=0.5, duration_s=1 / 240), BY_COUNTER])
    assert (
        "\n".join(told(STEP, warm).lines())
        == """\
channel  samples  missing  avg W  peak W         Wh  +- Wh  counter Wh  differs
gpu:0         41        3  360.0   360.0          2   0.01           2   -2.0 %                 by counter
cpu           60        4  120.0    72.0          1  0.014           -        -     by integral, ESTIMATED
gpu:1          -        -      -       -          -      -           -        -  too few samples, not mine
region 'a step' x 3, 12.346 s
  gpu:0       41        3  360.0                  2   0.01           2   -2.0 %                 by counter
  cpu         60        4  120.0                  1  0.014           -        -     by integral, ESTIMATED
  gpu:1        -        -      -       -          -      -           -        -  too few samples, not mine
region 'warm' x 2, 2.000 s
  gpu:0        -        -      -       -          -      -           -        -            too few samples
  cpu         60        4  120.0          0.0001389  0.014           -        -     by integral, ESTIMATED
  gpu:1       41        3  360.0                  2   0.01           2   -2.0 %       by counter, not mine
gpu:0: +- by sampling: random ±0.33 %, systematic ±0.17 %; accuracy of the sensor: ±5 % (assumed)
cpu: +- by sampling: random ±0.83 %, systematic ±0.56 %; accuracy of the sensor: not stated"""
    )


def test_the_difference_of_the_two_sources_is_in_percent():
    summary = told(RegionSum("far", 1, 2.0, 2.0, [BY_COUNTER._replace(difference=0.111), UNKNOWN, UNKNOWN]))
    assert "  +11.1 %  " in "\n".join(summary.lines())


def test_a_long_name_of_a_channel_moves_the_columns_together():
    trace = Trace([MODELLED, MODELLED._replace(name="a channel of a very long name")])
    for time_s in range(21):
        trace.append(time_s, [MODEL_W, MODEL_W], [None, None])
    lines = Summary(trace).lines()[:3]
    assert len({line.index(text) + len(text) for line, text in zip(lines, ("samples", " 21", " 21"), strict=True)}) == 1


def test_a_region_in_which_several_are_at_once_does_not_average_out():
    chance = random.Random(1)
    trace = Trace([ChannelInfo("made", Scope.CPU, "")], {"random_phase": True})
    for row in range(400):
        trace.append(row / 10, [chance.uniform(100, 500)], [None])
    windows = {"one": [(5.0, 13.0)], "ranks": [(5.0, 13.0)] * 16, "steps": [(5.0, 13.0), (13.0, 21.0)]}
    for name, times_s in windows.items():
        marks = [("region_begin", start_s) for start_s, _ in times_s] + [("region_end", end_s) for _, end_s in times_s]
        for kind, time_s in sorted(marks, key=lambda mark: (mark[1], mark[0] == "region_begin")):
            trace.event(kind, time_s, region=name)
    summary = Summary(trace)
    [one], [ranks], [steps] = (summary.regions[name].estimates for name in windows)
    assert ranks.energy_j == pytest.approx(16 * one.energy_j)
    assert ranks.uncertainty_j == pytest.approx(16 * one.uncertainty_j)
    assert steps.uncertainty_j < 0.9 * 2 * one.uncertainty_j
    at_once = [summary.regions["ranks"]._replace(name=name) for name in ("ranks", "second", "third")]
    for number, others in enumerate(("", "; so was 1 other region", "; so were 2 other regions"), 1):
        summary.regions = {region.name: region for region in [summary.regions["one"], *at_once[:number]]}
        [note] = [note for note in summary.notes() if "at once" in note]
        words = f"region 'ranks' was open several times at once{others}: "
        assert note == f"{words}the energy of that time is counted several times"


def test_a_pass_that_is_over_at_once_used_nothing():
    trace = Trace([ChannelInfo("a", Scope.DEVICE, "")], {"random_phase": True})
    for row in range(101):
        trace.append(row / 10, [300.0], [None])
    for name, start_s, end_s in [("step", 2.0, 3.0), ("step", 4.0, 4.0), ("step", 5.0, 6.0), ("empty", 7.0, 7.0)]:
        trace.event("region_begin", start_s, region=name)
        trace.event("region_end", end_s, region=name)
    regions = Summary(trace).regions
    assert (regions["step"].times, regions["step"].duration_s, regions["step"].shortest_s) == (3, 2.0, 0.0)
    assert regions["step"].estimates[0].energy_j == pytest.approx(600)
    [empty] = regions["empty"].estimates
    assert (regions["empty"].times, empty.unknown) == (1, "has no window longer than 0 s")


def test_a_counter_that_fell_without_power_is_noted():
    info = ChannelInfo("a", Scope.CPU, "", has_counter=True)
    trace = Trace([info], {"random_phase": True})
    for row in range(101):
        trace.append(row / 10, [math.nan], [1000.0 - row])
    summary = Summary(trace)
    assert [bool(one.unknown) for one in summary.command] == [True]
    assert "a: no energy, because the counter fell and there is no power to integrate" in summary.notes()


def test_a_region_that_a_channel_saw_too_little_of_once_has_no_sum_of_it():
    trace = Trace([ChannelInfo(name, Scope.CPU, "") for name in ("all", "late")])
    for row in range(100):
        trace.append(row / 10, [100.0, 50.0 if row >= 50 else None], [None, None])
    for start_s, end_s in ((1.0, 3.0), (6.0, 8.0)):
        trace.event("region_begin", start_s, region="step")
        trace.event("region_end", end_s, region="step")
    seen, late = Summary(trace).regions["step"].estimates
    assert seen.energy_j == pytest.approx(400.0)
    assert late.unknown


@pytest.mark.parametrize(("length_s", "is_said"), [(2, True), (60, False)])
def test_a_counter_that_power_can_hardly_check_is_noted(length_s, is_said):
    infos = [ChannelInfo(f"gpu:{index}", Scope.DEVICE, "", has_counter=True) for index in range(3)]
    chance = random.Random(1)
    load = square(0.37)
    trace = Trace(infos, {"random_phase": True})
    for time_s in moments(chance, 1.0, 1.0 + length_s, 0.1):
        trace.append(time_s, [load.power_w(time_s)] * 3, [load.energy_j(time_s)] * 3)
    summary = Summary(trace)
    assert [estimate.method for estimate in summary.command] == ["counter"] * 3
    note = "gpu:0 and 2 others: the integral of power has an uncertainty of ±"
    assert all(UNCHECKED in one for one in summary.notes() if one.startswith(note))
    assert any(one.startswith(note) for one in summary.notes()) == is_said


def test_power_that_is_the_counters_own_slope_checks_nothing():
    channel = Channel(ChannelInfo("rapl:0", Scope.CPU, "", has_counter=True), None, lambda: 0.0)
    info = channel.sampled_info(0.1)
    trace = Trace([info], {"random_phase": True})
    for time_s in moments(random.Random(1), 1.0, 7.0, 0.1):
        trace.append(time_s, [330.0], [300.0 * time_s])
    [estimate] = Summary(trace).command
    assert (estimate.method, estimate.reason, estimate.energy_j) == ("counter", "", pytest.approx(1800, rel=0.03))
    assert math.isnan(estimate.difference)
    assert Summary(trace).notes() == ["rapl:0: power is the slope of the counter, so nothing checks the counter"]


def test_an_interval_wider_than_the_energy_is_noted():
    infos = [ChannelInfo(f"gpu:{index}", Scope.DEVICE, "", limit_w=700.0) for index in range(2)]
    trace = Trace(infos, {"random_phase": True})
    for time_s in (1.0, 1.04, 1.11, 1.2):
        trace.append(time_s, [100.0 + time_s] * 2, [math.nan] * 2)
    summary = Summary(trace)
    for estimate in summary.command:
        assert estimate.energy_j + estimate.uncertainty_j <= 700 * 0.2 + 1e-9
    [note] = summary.notes()
    assert note.startswith("gpu:0 and 1 other: the energy has an uncertainty of ±")
    assert note.endswith(" %, by 4 samples: sample faster or run longer")


def test_a_name_that_is_long_is_cut_where_a_person_reads_it():
    trace = Trace([MODELLED], {"random_phase": True})
    trace.append(1.0, [70.0], [math.nan])
    trace.event("region_begin", 1.0, region="\x01" * 4000)
    trace.append(3.0, [70.0], [math.nan])
    trace.event("region_begin", 1.0, region="x" * 4000)
    trace.event("region_end", 2.0, region="x" * 4000)
    summary = Summary(trace)
    assert max(map(len, [*summary.lines(), *summary.notes()])) < 250
    assert summary.to_dict()["regions"][0]["region"] == "x" * 4000


def test_samples_that_mostly_repeat_are_noted_where_the_sensor_documents_no_hold_time():
    infos = [ChannelInfo(name, Scope.DEVICE, "") for name in ("holds", "documented", "moves")]
    infos[1] = infos[1]._replace(held_s=0.3)
    trace = Trace(infos, {"random_phase": True})
    for row in range(100):
        held_w = 200.0 + row // 3
        trace.append(row / 10, [held_w, held_w, 200.0 + row], [None] * 3)
    [note] = [note for note in Summary(trace).notes() if "repeat" in note]
    assert note == (
        "holds: 67% of its samples repeat the one before: if the sensor holds its values, the interval is too narrow"
    )


def test_a_trace_that_has_lost_the_commands_start_reports_so():
    trace = Trace([ChannelInfo("a", Scope.CPU, "")], {"command": ["train"]})
    for row in range(100):
        trace.append(row / 10, [100.0], [None])
    words = "the trace has no start of the command: energies are those of the whole trace"
    assert words in Summary(trace).notes()
    trace.event("command_started", 1.0)
    assert words not in Summary(trace).notes()
    [ended] = [note for note in Summary(trace).notes() if "has no end of the command" in note]
    trace.event("command_ended", 9.0)
    assert ended not in Summary(trace).notes()


def test_of_many_regions_the_longest_are_shown():
    regions = [(f"r{number}", 16.0, 17.0 + number / 10) for number in range(MANY + 3)]
    shown = [line for line in Summary(trace_of(regions)).lines() if line.startswith(("region", "and"))]
    assert shown[0] == f"region 'r{MANY + 2}', {1 + (MANY + 2) / 10:.3f} s"
    assert shown[-2:] == ["region 'r3', 1.300 s", "and 3 shorter regions, which the summary as JSON has"]
    few = [line for line in Summary(trace_of(regions[:MANY])).lines() if line.startswith(("region", "and"))]
    assert [few[0], few[-1]] == ["region 'r0', 1.000 s", f"region 'r{MANY - 1}', {1 + (MANY - 1) / 10:.3f} s"]


def test_for_a_program():
    gpu = {
        "name": "gpu:0",
        "scope": "module",
        "source": "a counter",
        "estimated": False,
        "mine": True,
        "device_id": "GPU-1",
        "num_devices": 2,
        "accuracy": 0.05,
        "accuracy_from": "assumed",
        "energy_wh": 2.0,
        "uncertainty_wh": 0.01,
        "random_wh": pytest.approx(24 / 3600),
        "systematic_wh": pytest.approx(12 / 3600),
        "method": "counter",
        "reason": "",
        "avg_power_w": 360.0,
        "samples": 41,
        "missing": 3,
        "integral_wh": 1.96,
        "integral_uncertainty_wh": 0.05,
        "counter_wh": 2.0,
        "integral_vs_counter": -0.02,
    }
    cpu = {
        **gpu,
        "name": "cpu",
        "scope": "cpu",
        "source": "a model",
        "estimated": True,
        "device_id": "",
        "num_devices": 1,
        "accuracy": None,
        "accuracy_from": "",
        "energy_wh": 1.0,
        "uncertainty_wh": 50 / 3600,
        "random_wh": pytest.approx(30 / 3600),
        "systematic_wh": pytest.approx(20 / 3600),
        "method": "integral",
        "reason": "the counter stood still",
        "avg_power_w": 120.0,
        "samples": 60,
        "missing": 4,
        "integral_wh": 1.0,
        "counter_wh": None,
        "integral_uncertainty_wh": 50 / 3600,
        "integral_vs_counter": None,
    }
    lost = {
        "name": "gpu:1",
        "scope": "device",
        "source": "lost",
        "estimated": False,
        "mine": False,
        "device_id": "",
        "num_devices": 1,
        "accuracy": None,
        "accuracy_from": "",
        "energy_wh": None,
    }
    summary = told(STEP)
    assert summary.to_dict() == {
        "interval_s": 0.5,
        "random_phase": True,
        "channels": [
            {**gpu, "peak_power_w": 360.0, "idle_power_w": pytest.approx(100.0, rel=0.01), "largest_gap_s": 1.5},
            {**cpu, "peak_power_w": 72.0, "idle_power_w": 72.0, "largest_gap_s": 2.5},
            {**lost, "peak_power_w": 5.0, "idle_power_w": None, "largest_gap_s": None},
        ],
        "regions": [{"region": "a step", "count": 3, "duration_s": 12.3456, "channels": [gpu, cpu, lost]}],
        "notes": summary.notes(),
    }


def test_a_power_that_was_never_read_has_no_peak():
    summary = Summary(Trace(INFOS))
    assert [one["peak_power_w"] for one in summary.to_dict()["channels"]] == [None, None, None]
    assert (summary.interval_s, summary.to_dict()["random_phase"]) == (0.0, False)
    assert all(one.unknown for one in summary.command)


def test_the_energy_is_that_of_the_command():
    counted, modelled, lost = Summary(trace_of()).command
    assert (counted.duration_s, counted.energy_j) == (14.0, pytest.approx(14 * BUSY_W))
    assert modelled.energy_j == pytest.approx(14 * MODEL_W)
    assert lost.unknown


def test_without_a_command_it_is_that_of_all_that_was_seen():
    counted, *_ = Summary(trace_of(command=False)).command
    assert (counted.duration_s, counted.energy_j) == (20.0, pytest.approx(5 * IDLE_W + 15 * BUSY_W, abs=1))


def test_of_a_command_that_reaches_over_what_was_sampled_the_rest_is_a_gap():
    trace = trace_of(command=False)
    trace.event("command_started", START_S - 1)
    trace.event("command_ended", END_S + 15)
    counted, *_ = Summary(trace).command
    assert (counted.duration_s, counted.covered_s, counted.largest_gap_s) == (36.0, 20.0, 15.0)
    assert counted.uncertainty_j > 16 * (BUSY_W - IDLE_W)
    assert counted.energy_j + counted.uncertainty_j >= 20 * IDLE_W + 16 * 700


def test_regions_of_one_name_are_added_up():
    step = Summary(trace_of([("step", 18, 19), ("step", 20, 24), ("step", 25, 27)])).regions["step"]
    assert step[:4] == ("step", 3, 7.0, 1.0)
    counted, modelled, lost = step.estimates
    assert counted.energy_j == pytest.approx(7 * BUSY_W)
    assert modelled.energy_j == pytest.approx(7 * MODEL_W)
    assert lost.unknown


def test_a_device_that_was_seen_in_one_of_two_regions_has_no_sum():
    trace = trace_of([("step", 11, 13), ("step", 25, 29)])
    for time_s in (30.5, 31.0, 31.5, 32.0):
        trace.append(time_s, [None, None, 5.0], [None, None, None])
    trace.event("region_begin", 30.5, region="step")
    trace.event("region_end", 32.0, region="step")
    assert all(one.unknown for one in Summary(trace).regions["step"].estimates)


# Notes


def notes_of(*regions, infos=INFOS, **meta):
    notes = Summary(trace_of(regions, infos, **meta)).notes()
    return [note for note in notes if UNCHECKED not in note]


BLIND = "cpu: without a counter, a load in step with the sensor's hold time of 0.75 s is not detected"


def test_a_load_that_a_sensor_cannot_see():
    """One that has no energy at all is no news there."""
    assert notes_of() == [BLIND]
    assert notes_of(infos=(MODELLED, COUNTED, MODELLED)) == [BLIND.replace("cpu:", "cpu and 1 other:")]
    assert notes_of(infos=(COUNTED, LOST)) == []
    assert notes_of(infos=(COUNTED,)) == []


def test_a_sensor_that_looks_at_a_part_of_the_time():
    infos = (COUNTED._replace(seen_share=0.25), MODELLED._replace(seen_share=0.5), LOST._replace(seen_share=0.5))
    assert notes_of(infos=infos[:1]) == [
        "gpu:0: the power sensor has a duty cycle of 25%, too little to check the counter"
    ]
    words = "the sensor has a duty cycle of 50%, and there is no counter: for the rest of the time, power may have been"
    assert notes_of(infos=infos[:2])[1:] == [f"cpu: {words} anything from 0 to its limit"]


def test_a_region_that_is_too_short_for_a_sensor():
    assert notes_of(("short", 16, 16.25), infos=(COUNTED,)) == [
        "region 'short' lasted 0.250 s, less than gpu:0 can resolve (0.5 s)"
    ]
    assert notes_of(("short", 16, 16.5), infos=(COUNTED,)) == []
    regions = [("a", 16, 16.9), ("b", 17, 17.75), ("c", 18, 18.9375), ("long", 20, 24)]
    assert notes_of(*regions) == [
        "region 'b' lasted 0.750 s, less than cpu can resolve (1 s); so did 2 other regions",
        "region 'b' lasted 0.750 s, less than gpu:1 can resolve (0.8 s)",
        BLIND,
    ]
    [note, _] = notes_of(*regions[:2], infos=(COUNTED, MODELLED))
    assert note == "region 'b' lasted 0.750 s, less than cpu can resolve (1 s); so did 1 other region"


def test_a_counter_that_was_not_used():
    summary = told()
    assert summary.notes() == ["cpu: the counter stood still; the integral is used", BLIND]


@pytest.mark.parametrize(("names", "words"), [("abc", "'a', 'b', 'c'"), ("abcd", "'a', 'b', 'c' and 1 more")])
def test_of_many_names_three_are_shown(names, words):
    trace = trace_of()
    for name in names:
        trace.event("region_begin", 20.0, region=name)
    assert Summary(trace).notes()[-1] == f"region {words} never ended: no energy"


def test_marks_that_make_no_region():
    trace = trace_of([("back", 20, 19), ("late", 28, 31), ("late", 29, 32), ("early", 9, 12)])
    for name in "abcde":
        trace.event("region_begin", 20.0, region=name)
    trace.event("region_begin", 21.0, region="a")
    trace.event("region_end", 21.0, region="never")
    trace.event("region_end", 22.0, region="never")
    assert Summary(trace).notes()[-4:] == [
        "region 'a' (2 times), 'b', 'c' and 2 more never ended: no energy",
        "region 'never' (2 times) ended without a beginning: no energy",
        "region 'back' ended before it began: no energy",
        "region 'early', 'late' (2 times) is outside of the trace: no energy",
    ]
