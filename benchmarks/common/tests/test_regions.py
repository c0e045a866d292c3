"""What of a window is marked, and what the record says of it."""

from __future__ import annotations

import json

import pytest

from benchmarks.common.measure.regions import (
    PARTS,
    MarkedSteps,
    regions_of,
    trace_of,
    traced,
    with_parts,
)
from jpwr.regions import RegionTimer
from jpwr.regions.times import BATCH, COMM, FORWARD, IO, OTHER, UPDATE, Span, describe, merge, steps_of
from record.derivation import derive
from record.model import Record


@pytest.fixture
def clock(monkeypatch):
    """A list whose only item is the time in seconds."""
    return [50.0]


@pytest.fixture
def timer(clock):
    return RegionTimer(now_s=lambda: clock[0])


def step(timer, marked, clock, **seconds):
    marked.begin()
    for key, time_s in seconds.items():
        with timer.region(key):
            clock[0] += time_s
    marked.end()


def window(timer, marked, clock, kind, steps):
    marked.begin_window(clock[0])
    for seconds in steps:
        step(timer, marked, clock, **seconds)
    marked.end_window(kind, clock[0])


def alone(value):
    return [value]


def test_steps_are_marked_in_windows_alone_and_told_of_each_kind(timer, clock):
    marked = MarkedSteps(timer)
    step(timer, marked, clock, Forward=9)  # of the warm-up
    for _ in range(2):
        window(timer, marked, clock, "measured", [{"Forward": 3, "Update": 1}] * 2)
        step(timer, marked, clock, Forward=9)
        window(timer, marked, clock, "effective", [{"IO": 2, "Forward": 3, "Update": 1}])
    found = regions_of(marked.spans(), "host", 2, alone)
    assert (found["measured"]["steps"], found["effective"]["steps"]) == (4, 2)
    assert found["measured"]["clock"] == "host"
    assert found["measured"]["step_s"] == pytest.approx(2)
    assert found["measured"]["regions"][FORWARD]["share_percent"] == pytest.approx(75)
    assert found["effective"]["regions"][IO]["median_s"] == pytest.approx(1)
    assert IO not in found["measured"]["regions"]


def test_of_many_steps_fewer_and_fewer_are_marked_and_the_last_ones_too(timer, clock):
    marked = MarkedSteps(timer, many_marks=40)
    window(timer, marked, clock, "measured", [{"Forward": index + 1.0} for index in range(400)])
    found = [span.end_s - span.start_s for span in timer.spans() if span.key == FORWARD]
    assert found[:10] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]  # 4 marks each
    assert 30 < len(found) < 100
    assert found[-1] > 370
    assert timer.count() == 2 * len(timer.spans())


def described(**seconds):
    """Of steps that are all alike: each region's time, then Other's."""
    spans, time_s = [], 0.0
    for key, own_s in seconds.items():
        if key != OTHER:
            spans.append(Span(key, "host", time_s, time_s + own_s))
        time_s += own_s
    return describe(steps_of([*spans, Span(BATCH, "host", 0.0, time_s)]))


def test_what_a_step_does_not_tell_is_shared_out_as_in_steps_that_were_split():
    usual = merge([described(IO=1, Other=9), described(IO=2, Other=8)])
    parts = merge([described(Forward=4, Backward=6, Comm=2, Update=0, Other=1)] * 2)
    found = with_parts(usual, parts)
    regions = found["regions"]
    assert OTHER not in regions
    assert regions[IO] == usual["regions"][IO]
    assert regions[FORWARD]["median_s"] == pytest.approx(8.5 / 3)
    assert regions["Backward"]["by_rank_s"] == pytest.approx([4.5, 4])
    assert regions[COMM]["share_percent"] == pytest.approx(85 / 6)
    assert regions[COMM]["from"] == PARTS
    assert found["in_parts"] == {"steps": 1, "longer_percent": pytest.approx(100 * (12 / 8.5 - 1))}


def test_of_a_step_that_is_longer_than_its_parts_the_rest_is_still_other():
    usual = merge([described(IO=1, Other=20)])
    found = with_parts(usual, merge([described(Forward=4, Update=1)]))
    seconds = {key: one["median_s"] for key, one in found["regions"].items()}
    assert seconds == pytest.approx({IO: 1, FORWARD: 4, UPDATE: 1, OTHER: 15})
    assert found["regions"][OTHER]["by_rank_s"] == pytest.approx([15])
    assert sum(one["share_percent"] for one in found["regions"].values()) == pytest.approx(100)
    assert found["in_parts"]["longer_percent"] == pytest.approx(-75)


def test_steps_in_parts_that_tell_nothing_are_not_in_the_record(timer, clock):
    marked = MarkedSteps(timer)
    window(timer, marked, clock, "measured", [{"IO": 3}])
    window(timer, marked, clock, PARTS, [{}])
    assert list(regions_of(marked.spans(), "host", 1, alone)) == ["measured"]


@pytest.mark.parametrize("parts", [described(Other=5), described(IO=5)])
def test_steps_that_tell_no_more_leave_it_as_it_is(parts):
    usual = merge([described(IO=1, Other=9)])
    assert with_parts(usual, merge([parts])) == usual


def shares_of(seconds, devices, all_communication):
    step = {**merge([described(**seconds)]), "all_communication": all_communication}
    record = {"status": "ok", "work_unit": "tokens", "layout": {"num_devices": devices}, "regions": {"measured": step}}
    found = derive(Record.of(record)).metrics
    return {name: found.number(name) for name in ("io_percent", "comm_percent")}


@pytest.mark.parametrize(
    ("seconds", "devices", "shares"),
    [
        ({IO: 1, FORWARD: 3}, 1, (25, 0)),
        ({IO: 1, FORWARD: 3}, 2, (25, None)),  # they talked, and nobody told how long
        ({IO: 1, COMM: 3}, 2, (25, 75)),
        ({UPDATE: 4}, 1, (None, 0)),
    ],
)
def test_shares_for_tables_are_what_is_known(seconds, devices, shares):
    assert shares_of(seconds, devices, True) == {"io_percent": shares[0], "comm_percent": shares[1]}


def test_communication_of_which_a_part_is_told_is_not_known():
    assert shares_of({COMM: 1, FORWARD: 3}, 2, False)["comm_percent"] is None
    assert shares_of({COMM: 1, FORWARD: 3}, 1, False)["comm_percent"] == 25


def test_the_trace_has_the_first_steps_of_every_rank_on_one_clock(timer, clock, monkeypatch):
    monkeypatch.setattr("benchmarks.common.measure.regions.time", Times)
    marked = MarkedSteps(timer)
    window(timer, marked, clock, "measured", [{"Forward": 2}] * 30)
    rows = traced(marked.spans(), "host", 1)
    assert len([row for row in rows if row[0] == BATCH]) == 20
    later = [[key, lane, start_s + 1, end_s + 1] for key, lane, start_s, end_s in rows]
    drawn = [one for one in json.loads(trace_of([rows, later]))["traceEvents"] if one["ph"] == "X"]
    assert [one["ts"] for one in drawn if one["pid"] == 0 and one["name"] == BATCH][:2] == [0, 2e6]
    assert [one["ts"] for one in drawn if one["pid"] == 1 and one["name"] == BATCH][:2] == [1e6, 3e6]


class Times:
    """The module time of another node."""

    time, monotonic = staticmethod(lambda: 1.7e9), staticmethod(lambda: 80.0)
