"""The summary of a trace, as text and as JSON."""

from __future__ import annotations

import math

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.energy import EnergyEstimate
from jpwr.report.summary import MANY, Summary
from jpwr.report.sums import RegionSum
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
    title, gpu, cpu, lost, region, *of_region, first, second = told(STEP).lines()
    assert title.split()[:3] == ["channel", "samples", "missing"]
    assert gpu.split()[1:9] == ["41", "3", "360.0", "360.0", "2", "0.01", "2", "-2.0"]
    assert cpu.split()[1:9] == ["60", "4", "120.0", "72.0", "1", "0.014", "-", "-"]
    assert (gpu[-10:], cpu[-22:]) == ("by counter", "by integral, ESTIMATED")
    assert lost.split(maxsplit=9)[1:] == [*"--------", "too few samples, not mine"]
    assert (region, len(of_region)) == ("region 'a step' x 3, 12.346 s", 3)
    assert of_region[0].split()[1:8] == ["41", "3", "360.0", "2", "0.01", "2", "-2.0"]
    assert len({len(line) for line in (title, gpu, cpu, lost, *of_region)} - {len(title)}) == 1
    assert "random ±0.33 %, systematic ±0.17 %; accuracy of the sensor: ±5 % (assumed)" in first
    assert "random ±0.83 %, systematic ±0.56 %; accuracy of the sensor: not stated" in second


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


def test_for_a_program():
    summary = told(STEP)
    stated = summary.to_dict()
    assert (stated["interval_s"], stated["random_phase"], stated["notes"]) == (0.5, True, summary.notes())
    gpu, cpu, lost = stated["channels"]
    both = {"energy_wh": 2.0, "uncertainty_wh": 0.01, "random_wh": 24 / 3600, "systematic_wh": 12 / 3600}
    both |= {"integral_wh": 1.96, "integral_uncertainty_wh": 0.05, "counter_wh": 2.0, "integral_vs_counter": -0.02}
    both |= {"avg_power_w": 360.0, "peak_power_w": 360.0, "idle_power_w": 100.0, "largest_gap_s": 1.5}
    assert {name: gpu[name] for name in both} == pytest.approx(both, rel=0.01)
    named = ("name", "scope", "method", "samples", "missing", "accuracy", "accuracy_from", "device_id", "num_devices")
    assert [gpu[name] for name in named] == ["gpu:0", "module", "counter", 41, 3, 0.05, "assumed", "GPU-1", 2]
    assert [cpu[name] for name in ("estimated", "counter_wh", "integral_vs_counter")] == [True, None, None]
    assert (cpu["method"], cpu["reason"]) == ("integral", "the counter stood still")
    assert (lost["mine"], lost["energy_wh"], lost["largest_gap_s"], lost["peak_power_w"]) == (False, None, None, 5.0)
    [step] = stated["regions"]
    assert (step["region"], step["count"], step["duration_s"]) == ("a step", 3, 12.3456)
    assert [channel.get("energy_wh") for channel in step["channels"]] == [2.0, 1.0, None]


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


# What a note is of, by words that it has and others have not.
KINDS = {
    "hold": "hold time of",
    "blind": "there is no counter: for the rest",
    "partial": "duty cycle of 25%, too little",
    "short": "can resolve",
    "source": "the integral is used",
    "repeats": "repeat the one before",
    "slope": "slope of the counter",
    "start": "no start of the command",
    "end": "no end of the command",
    "late": "after the last reading",
    "unchecked": "too much to check the counter",
    "marks": "no energy",
    "at once": "at once",
    "wide": "the energy has an uncertainty",
}


def kinds_of(summary):
    notes = summary.notes()
    found = [kind for note in notes for kind, words in KINDS.items() if words in note]
    assert len(found) == len(notes)
    assert max(map(len, notes), default=0) < 250
    return {*found} - {"unchecked"}  # as its samples are few


@pytest.mark.parametrize(
    ("infos", "regions", "meta", "kinds"),
    [
        (INFOS, [], {}, {"hold"}),
        ((COUNTED, LOST), [], {}, set()),  # that a device has no energy at all is no news there
        ((COUNTED._replace(seen_share=0.25),), [], {}, {"partial"}),
        ((MODELLED._replace(held_s=0.0, seen_share=0.5),), [], {}, {"blind"}),
        ((COUNTED,), [("short", 16, 16.25)], {}, {"short"}),
        ((COUNTED,), [("short", 16, 16.5)], {}, set()),
        ((COUNTED,), [("a", 16, 18), ("a", 17, 19)], {}, {"at once"}),
        ((COUNTED,), [("back", 20, 19)], {}, {"marks"}),
        ((COUNTED,), [("late" * 1000, 28, 31), ("early", 9, 12)], {}, {"marks"}),
        ((COUNTED._replace(from_counter=True),), [], {}, {"slope"}),
        ((MODELLED._replace(estimated=False, held_s=0.0),), [], {"random_phase": True}, {"repeats"}),
        ((COUNTED,), [], {"lost": ("command_started",)}, {"start"}),
        ((COUNTED,), [], {"lost": ("command_ended",)}, {"end"}),
    ],
)
def test_a_note_is_given_where_it_applies(infos, regions, meta, kinds):
    trace = trace_of(regions, infos, **meta)
    if "lost" in meta:
        trace.meta["command"] = ["train"]
        trace.events = [event for event in trace.events if event.name not in meta["lost"]]
    assert kinds_of(Summary(trace)) == kinds


def test_notes_on_single_estimates():
    assert kinds_of(told()) == {"source", "hold"}
    summary = told()
    summary.command = [UNKNOWN, BY_INTEGRAL._replace(reason="", uncertainty_j=4000.0), UNKNOWN]
    assert kinds_of(summary) == {"wide", "hold"}
    trace = trace_of(infos=(COUNTED,), command=False)
    trace.event("command_started", BEGUN_S)
    trace.event("command_ended", END_S + 100)
    assert "late" in kinds_of(Summary(trace))


def test_of_many_regions_the_longest_are_shown():
    regions = [(f"r{number}", 16.0, 17.0 + number / 10) for number in range(MANY + 3)]
    lines = [line.split()[1] for line in Summary(trace_of(regions)).lines() if line.startswith("region")]
    assert lines == [f"'r{number}'," for number in range(MANY + 2, 2, -1)]
