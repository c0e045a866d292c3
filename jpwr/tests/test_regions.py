"""The timer of regions, on a clock that the test moves, and what steps are made of."""

from __future__ import annotations

import json
import threading
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpwr.regions import RegionTimer
from jpwr.regions.times import (
    BACKWARD,
    BATCH,
    COMM,
    DEVICE,
    FORWARD,
    HOST,
    IO,
    OTHER,
    UPDATE,
    Span,
    State,
    chrome_trace,
    describe,
    merge,
    states_of,
    steps_of,
    table,
)


class Device:
    """Takes what it is given in order, and no sooner than the host gives it; events are moments of its own."""

    def __init__(self, clock):
        self.clock, self.free_s, self.asked = clock, 0.0, 0

    def work(self, seconds):
        self.free_s = max(self.free_s, self.clock.time_s) + seconds

    def event(self):
        return Event(self, max(self.free_s, self.clock.time_s))


class Event:
    def __init__(self, device, time_s):
        self.device, self.time_s = device, time_s

    def elapsed_s(self, since):
        assert self.device.clock.time_s >= self.time_s, "it was asked for before it had passed"
        self.device.asked += 1
        return self.time_s - since.time_s


@pytest.fixture
def clock(clock):
    """The test's clock, which does not begin at 0."""
    clock.time_s = 100.0
    return clock


@pytest.fixture
def timer(clock):
    return RegionTimer(now_s=clock.now_s)


def in_region(timer, clock, key, seconds):
    with timer.region(key):
        clock.time_s += seconds


def test_of_two_that_begin_at_one_moment_the_inner_one_has_it():
    spans = [Span(COMM, HOST, 0, 1), Span(UPDATE, HOST, 0, 3), Span(BATCH, HOST, 0, 4)]
    for order in (spans, spans[::-1]):
        assert steps_of(order)[0].own_s == pytest.approx({COMM: 1, UPDATE: 2, OTHER: 1})


def test_other_threads_have_whole_times_and_no_part_of_the_step(timer, clock):
    with timer.region(BATCH):
        started = threading.Event()
        ended = threading.Event()

        def load():
            timer.start(IO)
            started.set()
            ended.wait()
            timer.end(IO)

        thread = threading.Thread(target=load)
        thread.start()
        started.wait()
        in_region(timer, clock, FORWARD, 3)
        ended.set()
        thread.join()
    [step] = timer.steps()
    assert step.own_s == pytest.approx({FORWARD: 3, OTHER: 0})
    assert step.whole_s == pytest.approx({FORWARD: 3, IO: 3})
    assert {span.lane for span in timer.spans()} == {HOST, "host, thread 2"}


def test_a_function_and_a_loop_can_be_regions(timer, clock):
    @timer.region(UPDATE)
    def update(seconds):
        clock.time_s += seconds
        return seconds

    def batches():
        for batch in "ab":
            clock.time_s += 1
            yield batch
        clock.time_s += 7  # to find that there are no more

    assert update(2) == 2
    assert list(timer.io(batches())) == ["a", "b"]
    assert [(span.key, span.end_s - span.start_s) for span in timer.spans()] == [(UPDATE, 2), (IO, 1), (IO, 1), (IO, 7)]


def test_marks_without_a_partner_are_left_out(timer, clock):
    timer.end(IO)
    timer.start(FORWARD)
    in_region(timer, clock, UPDATE, 1)
    assert [span.key for span in timer.spans()] == [UPDATE]


def test_with_events_steps_are_reported_by_the_device_and_nothing_waits_for_it(clock):
    device = Device(clock)
    timer = RegionTimer(device.event, clock.now_s)
    for _ in range(2):
        with timer.region(BATCH):
            with timer.region(FORWARD):
                clock.time_s += 0.001
                device.work(3)
            with timer.region(UPDATE):
                clock.time_s += 0.001
                device.work(1)
    assert device.asked == 0
    clock.time_s += 100
    steps = timer.steps()
    assert [step.duration_s for step in steps] == [pytest.approx(4.001), pytest.approx(4)]
    assert steps[1].own_s == pytest.approx({FORWARD: 3, UPDATE: 1, OTHER: 0})
    assert steps[0].start_s == 100.0
    host = [span for span in timer.spans() if span.lane == HOST and span.key == BATCH]
    assert [span.end_s - span.start_s for span in host] == pytest.approx([0.002, 0.002])


def test_where_the_device_is_at_rest_its_time_and_the_hosts_meet(clock):
    device = Device(clock)
    timer = RegionTimer(device.event, clock.now_s)
    with timer.region(BATCH):
        device.work(1)
    clock.time_s += 50
    device.free_s += 0.5  # its clock runs ahead
    timer.device_at_rest()
    with timer.region(BATCH):
        device.work(1)
    clock.time_s += 10
    assert [step.start_s for step in timer.steps()] == [100.0, 150.0]


@pytest.mark.parametrize("with_events", [True, False])
def test_what_goes_on_next_to_the_program_has_whole_times_alone(clock, with_events):
    device = Device(clock)
    timer = RegionTimer(device.event if with_events else None, clock.now_s)
    with timer.region(BATCH):
        started = timer.moment()
        with timer.region(FORWARD):
            device.work(4)
            clock.time_s += 4
        with timer.region(COMM):
            device.work(1)
            clock.time_s += 1
        timer.add(COMM, "communication", started, timer.moment())
    clock.time_s += 10
    [step] = timer.steps()
    assert step.own_s == pytest.approx({FORWARD: 4, COMM: 1, OTHER: 0})
    assert step.whole_s == pytest.approx({FORWARD: 4, COMM: 5})


def test_whole_times_on_a_device_know_nothing_of_the_hosts_clock(clock):
    """A host that runs ahead is done with a region before the device begins it."""
    device = Device(clock)
    timer = RegionTimer(device.event, clock.now_s)
    with timer.region(BATCH):
        for _ in range(2):
            with timer.region(FORWARD):
                device.work(4)
                clock.time_s += 0.5
            with timer.region(UPDATE):
                device.work(1)
                clock.time_s += 0.5
    clock.time_s += 20
    [step] = timer.steps()
    assert step.whole_s == pytest.approx({FORWARD: 8, UPDATE: 2})


def test_states_are_a_partition_with_what_is_communicated_beside():
    spans = [
        Span(BATCH, HOST, 0, 10),
        Span(IO, HOST, 0, 1),
        Span(BACKWARD, HOST, 1, 6),
        Span(COMM, HOST, 6, 7),
        Span(UPDATE, HOST, 8, 10),
        Span(COMM, "communication", 3, 4.5),
        Span(COMM, "communication", 4, 5),
        Span(COMM, "communication", 6.5, 7.5),
        Span(COMM, DEVICE, 0, 10),  # by another clock
    ]
    assert states_of(spans, HOST, -1, 9) == [
        State(OTHER, -1, 0),
        State(IO, 0, 1),
        State(BACKWARD, 1, 3),
        State("Backward+Comm", 3, 5),
        State(BACKWARD, 5, 6),
        State(COMM, 6, 7.5),  # nothing hides the rest of it
        State(OTHER, 7.5, 8),
        State(UPDATE, 8, 9),
    ]


span = st.builds(
    lambda key, start, length: Span(key, HOST, start / 8, (start + length) / 8),
    st.sampled_from([IO, FORWARD, COMM, OTHER]),
    st.integers(0, 60),
    st.integers(0, 40),
)


@given(st.lists(span, max_size=12), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_whatever_is_marked_own_times_sum_up_and_whole_times_hold_them(spans, lengths):
    start = 4
    batches = []
    for length in lengths:
        batches.append(Span(BATCH, HOST, start / 8, (start + length) / 8))
        start += length + 3
    steps = steps_of(spans + batches)
    assert len(steps) == len(lengths)
    for step, batch in zip(steps, batches):
        # In steps of an eighth of a second, moment by moment.
        own, whole = defaultdict(float), defaultdict(float)
        for tick in range(round(8 * batch.start_s), round(8 * batch.end_s)):
            middle_s = (tick + 0.5) / 8
            open_ones = [(one.start_s, one) for one in spans if one.start_s < middle_s < one.end_s]
            for key in {one.key for _, one in open_ones}:
                whole[key] += 1 / 8
            if not open_ones:
                own[OTHER] += 1 / 8
            latest_s = max((start_s for start_s, _ in open_ones), default=0.0)
            if len({one.key for start_s, one in open_ones if start_s == latest_s}) == 1:
                own[next(one.key for start_s, one in open_ones if start_s == latest_s)] += 1 / 8
        assert sum(step.own_s.values()) == pytest.approx(step.duration_s)
        assert {key: value for key, value in step.whole_s.items() if value} == pytest.approx(whole)
        for key, value in own.items():  # of two that began at one moment either may have it
            assert step.own_s[key] >= value - 1e-9
        for key, value in step.own_s.items():
            assert key == OTHER or value <= step.whole_s[key] + 1e-9


def steps_with(*forward_s, io_s=1.0):
    spans, time_s = [], 0.0
    for seconds in forward_s:
        spans.append(Span(IO, HOST, time_s, time_s + io_s))
        spans.append(Span(FORWARD, HOST, time_s + io_s, time_s + io_s + seconds))
        spans.append(Span(BATCH, HOST, time_s, time_s + io_s + seconds))
        time_s += io_s + seconds
    return steps_of(spans)


def test_a_process_shows_medians_percentiles_and_shares():
    found = describe(steps_with(*range(1, 22)))
    assert found["steps"] == 21
    assert found["step_s"] == pytest.approx(12)
    forward = found["regions"][FORWARD]
    assert forward["median_s"] == pytest.approx(11)
    assert forward["p95_s"] == pytest.approx(20)
    assert forward["mean_s"] == forward["whole_s"] == pytest.approx(11)
    assert forward["share_percent"] == pytest.approx(100 * 11 / 12)
    assert found["regions"][OTHER]["whole_s"] is None


def test_where_a_batch_was_of_several_steps_one_of_them_is_reported():
    found = describe(steps_with(7.0), 4)
    assert found["step_s"] == pytest.approx(2)
    assert found["regions"][FORWARD]["median_s"] == pytest.approx(1.75)
    assert found["regions"][FORWARD]["share_percent"] == pytest.approx(87.5)


def test_processes_are_merged_with_their_imbalance():
    ranks = [describe(steps_with(3.0, 3.0)), describe(steps_with(2.0, 2.0, io_s=2.0))]
    found = merge(ranks)
    assert found["step_s"] == pytest.approx(4)
    assert found["regions"][FORWARD]["by_rank_s"] == pytest.approx([3, 2])
    assert found["regions"][FORWARD]["imbalance_percent"] == pytest.approx(25)
    assert found["regions"][FORWARD]["median_s"] == pytest.approx(2.5)
    assert found["regions"][IO]["share_percent"] == pytest.approx((25 + 50) / 2)


def test_a_region_that_one_process_lacks_takes_it_no_time():
    spans = [Span(BATCH, HOST, 0, 4), Span(COMM, HOST, 0, 2)]
    found = merge([describe(steps_of(spans)), describe(steps_of(spans[:1]))])
    assert found["regions"][COMM]["by_rank_s"] == pytest.approx([2, 0])
    assert found["regions"][COMM]["share_percent"] == pytest.approx(25)
    assert found["regions"][COMM]["imbalance_percent"] == pytest.approx(50)


def test_without_a_step_nothing_is_reported():
    assert merge([describe([])]) == {"steps": 0, "step_s": None, "regions": {}}
    assert "Batch" in table([])


def test_the_trace_has_processes_lanes_and_microseconds():
    spans = [Span(IO, DEVICE, 1.0, 1.5), Span(FORWARD, HOST, 1.0, 3.0), Span(BATCH, HOST, 1.0, 4.0)]
    events = json.loads(chrome_trace({"rank 0": spans, "rank 1": spans[:1]}))["traceEvents"]
    named = {(one["pid"], one.get("tid")): one["args"]["name"] for one in events if one["ph"] == "M"}
    assert {named[0, None], named[1, None]} == {"rank 0", "rank 1"}
    drawn = [one for one in events if one["ph"] == "X"]
    assert [(one["name"], named[one["pid"], one["tid"]], one["ts"], one["dur"]) for one in drawn] == [
        (BATCH, HOST, 1e6, 3e6),  # before what lies in it
        (FORWARD, HOST, 1e6, 2e6),
        (IO, DEVICE, 1e6, 5e5),
        (IO, DEVICE, 1e6, 5e5),
    ]
