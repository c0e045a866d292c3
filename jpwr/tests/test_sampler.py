from __future__ import annotations

import itertools
import math
import os
import random
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import jpwr
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import JpwrError, ReadError
from jpwr.messages import log
from jpwr.process.clock import Clock
from jpwr.report.summary import Summary
from jpwr.sampling.edges import MOST_S, EdgeReader
from jpwr.sampling.lane import HUNG_S
from jpwr.sampling.monitor import WATCH_INTERVAL_S, PowerMonitor, any_moment
from jpwr.sampling.pace import COUNTER_SHARE, PROBES
from jpwr.sampling.recorder import Slope
from jpwr.tests.conftest import DEADLINE_S, wait_until
from jpwr.tests.loads import HIGH_W, LOW_W, counter_of, square
from jpwr.trace.trace import NO_STATUS, STATUS, Trace

INFO = ChannelInfo("sensor", Scope.DEVICE, "a test")


class Sampler(PowerMonitor):
    """One that samples in the test's own thread."""

    def __init__(self, channels, sinks, interval_s, clock, warn=log, chance=lambda: 0.0):
        super().__init__(channels, interval_s, sinks, clock, warn, chance)

    def run(self, stopped):
        self.lanes[0].loop(stopped)
        self.finish()


def times_of(trace):
    [series] = trace.series()
    return series.times_s


def sample(clock, read_power_w, interval_s=0.1, until_s=0.55, read_energy_j=None):
    """A trace and its sampler, over `until_s` of the fake clock."""
    info = INFO._replace(has_counter=read_energy_j is not None)
    trace = Trace([info])
    warnings: list[str] = []
    sampler = Sampler([Channel(info, read_power_w, read_energy_j)], [trace], interval_s, clock, warnings.append)
    sampler.run(lambda: clock.time_s >= until_s)
    return trace, sampler, warnings


def test_a_slow_read_skips_ticks_and_never_bursts(clock):
    def slow() -> float:
        clock.time_s += 0.25
        return 1.0

    trace, sampler, _ = sample(clock, slow, until_s=0.7)
    # A reading is of the middle of its call.
    assert list(times_of(trace)) == pytest.approx([0.125, 0.425, 0.725, 0.975])
    assert sampler.recorder.skipped_ticks == 4


@pytest.mark.parametrize("took_s", [0.0001, 0.04, 0.45])
def test_a_reading_has_begin_and_end_of_its_call(clock, took_s):
    def slow_once() -> float:
        clock.time_s += took_s if 1.999 < clock.time_s < 2.001 else 0.0
        return 300 * clock.time_s

    trace, sampler, told = sample(clock, lambda: 7 * clock.time_s, until_s=4.0, read_energy_j=slow_once)
    [series] = trace.series()
    counted = list(zip(series.counter_times_s, series.counter_half_s, series.energy_j))
    [(time_s, half_s)] = [(time_s, half_s) for time_s, half_s, _ in counted if 2.0 <= time_s < 2.0 + took_s]
    # Calls of one moment share a row, and that moment is known.
    is_known = took_s < 0.0002
    assert (time_s, half_s) == pytest.approx((2.0 + took_s / 2, 0.0 if is_known else took_s / 2))
    assert all(abs(value_j / 300 - at_s) <= half_s + 1e-4 for at_s, half_s, value_j in counted)
    assert all(abs(watts / 7 - at_s) <= 1e-4 for at_s, watts in zip(series.times_s, series.power_w))
    assert sum(map(bool, series.counter_half_s)) + sum(map(bool, series.half_s)) == (0 if is_known else 1)
    assert (series.missing, sampler.recorder.failed_reads["sensor"], told) == (0, 0, [])


@pytest.mark.parametrize("took_s", [0.04, 0.45])
def test_a_call_that_took_long_makes_no_slope_of_a_counter_that_was_not_there(clock, took_s):
    def slow_once() -> float:
        before_j = 300 * clock.time_s
        clock.time_s += took_s if 1.999 < clock.time_s < 2.001 else 0.0
        return before_j

    [series] = sample(clock, None, until_s=4.0, read_energy_j=slow_once)[0].series()
    assert list(series.power_w)[1:] == pytest.approx([300.0] * (len(series.power_w) - 1), rel=0.25)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 1.4])
def test_a_load_in_step_with_the_interval_is_seen_at_all_its_phases_however_long_a_round_takes(clock, share):
    def slow() -> float:
        clock.time_s += share * 0.1
        return 1.0

    trace = Trace([INFO])
    chance = random.Random(7).random
    Sampler([Channel(INFO, slow)], [trace], 0.1, clock, chance=chance).run(lambda: clock.time_s >= 300)
    begun_s = [time_s - share * 0.05 for time_s in times_of(trace)]
    counts = Counter(math.floor(time_s / 0.025) % 4 for time_s in begun_s)
    assert all(0.2 < number / len(begun_s) < 0.3 for number in counts.values())


@pytest.mark.parametrize("call_s", [0.03, 0.3])
def test_a_device_behind_one_that_answers_slowly_has_its_own_time(clock, call_s):
    def slow() -> float:
        clock.time_s += call_s
        return 1.0

    info = INFO._replace(has_counter=True)
    behind = Channel(info._replace(name="behind"), lambda: 7 * clock.time_s, lambda: 300 * clock.time_s)
    trace = Trace([info, behind.info])
    channels = [Channel(info, slow, lambda: 300 * clock.time_s), behind]
    Sampler(channels, [trace], 0.1, clock).run(lambda: clock.time_s >= 10)
    of_slow, of_behind = trace.series()
    for series in (of_slow, of_behind):
        assert list(series.energy_j) == pytest.approx([300 * time_s for time_s in series.counter_times_s])
    assert list(of_behind.power_w) == pytest.approx([7 * time_s for time_s in of_behind.times_s])
    # Of the slow one's power it is known that it is of some moment of the call.
    assert list(of_slow.times_s) == pytest.approx([time_s - call_s / 2 for time_s in of_behind.times_s])


def test_a_mark_reads_the_counters_and_not_power_of_which_it_would_be_no_fair_sample(stepped):
    counted = INFO._replace(name="counted", has_counter=True)
    channels = [Channel(counted, lambda: 5.0, lambda: 5 * stepped.time_s), Channel(INFO, lambda: 5.0)]
    with PowerMonitor(channels, interval_s=1.0, clock=stepped, chance=even) as monitor:
        stepped.move_to(0.25)
        monitor.mark("region_begin", "work")
        stepped.move_to(2.0)
    first, second = monitor.trace.series()
    assert list(first.times_s)[:3] == list(second.times_s)[:3] == [0.0, 1.0, 2.0]
    assert 0.25 in first.counter_times_s


@pytest.mark.parametrize("refresh_s", [0.02, 0.05, 0.1])
def test_an_edge_next_to_which_counters_are_read_is_sharp(clock, refresh_s):
    chance = random.Random(5).random
    info = INFO._replace(has_counter=True, counter_resolution_j=0.001)

    def counter_j() -> float:
        return math.floor(300_000 * math.floor((clock.time_s - 0.013) / refresh_s) * refresh_s) / 1000

    trace = Trace([info])
    sampler = Sampler([Channel(info, lambda: 300.0, counter_j)], [trace], 0.1, clock, chance=chance)
    window_s = []
    for end_s in (5.0, 13.1, 16.0):
        sampler.run(lambda end_s=end_s: clock.time_s >= end_s)
        window_s.append(clock.time_s)
        EdgeReader(sampler, clock).read_all()
        assert clock.time_s - window_s[-1] <= refresh_s + 0.005
    [estimate] = trace.energies(*window_s[:2])
    error_j = abs(estimate.energy_j - 300 * (window_s[1] - window_s[0]))
    assert error_j <= estimate.uncertainty_j <= 0.006 * estimate.energy_j


def test_a_counter_that_does_not_change_is_waited_for_no_longer_than_a_moment(clock):
    info = INFO._replace(has_counter=True)
    sampler = Sampler([Channel(info, lambda: 300.0, lambda: 5.0), Channel(INFO, lambda: 1.0)], [], 0.1, clock)
    edge = EdgeReader(sampler, clock)
    edge.read_all()
    assert MOST_S <= clock.time_s <= MOST_S + 0.01
    edge.read_counters()  # soon after another
    assert not edge.is_waiting


def test_samples_are_at_random_moments_whatever_the_interval():
    moments = [any_moment() for _ in range(2000)]
    assert 0 <= min(moments) < 0.01 < 0.99 < max(moments) < 1
    assert sum(moments) / 2000 == pytest.approx(0.5, abs=0.05)


def test_moments_that_are_close_together_are_no_skipped_ticks(clock):
    trace = Trace([INFO])

    def read() -> float:
        clock.time_s += 0.01
        return 1.0

    chances = itertools.cycle([0.99, 0.0])
    sampler = Sampler([Channel(INFO, read)], [trace], 0.1, clock, chance=lambda: next(chances))
    sampler.run(lambda: clock.time_s >= 5)
    assert sampler.recorder.skipped_ticks == 0
    assert len(times_of(trace)) >= 50


def test_without_a_power_reading_power_is_the_counters_slope(clock):
    trace, _, _ = sample(clock, None, read_energy_j=lambda: 50.0 * clock.time_s)
    [series] = trace.series()
    assert math.isnan(series.power_w[0])
    assert list(series.power_w[1:]) == pytest.approx([50.0] * 6)


@pytest.mark.parametrize("refresh_s", [0.0, 0.001, 0.05, 0.1, 0.23, 1.0])
def test_no_slope_of_a_counter_is_of_less_time_than_shows_power(clock, refresh_s):
    """Readings at random moments come as close together as chance has it, and a counter when it is renewed."""
    load = square(2.0)
    read_energy_j = counter_of(load, refresh_s)
    info = INFO._replace(has_counter=True)
    trace = Trace([info])
    channel = Channel(info, None, lambda: read_energy_j(clock.time_s))
    Sampler([channel], [trace], 0.1, clock, chance=random.Random(refresh_s).random).run(lambda: clock.time_s >= 60)
    [series] = trace.series()
    seen_w = [watts for watts in series.power_w if not math.isnan(watts)]
    assert all(LOW_W / 2 <= watts <= 1.5 * HIGH_W for watts in seen_w)
    assert statistics.mean(seen_w) == pytest.approx(300.0, rel=0.1)


def test_a_counter_that_stands_still_has_no_slope_and_one_that_fell_begins_anew():
    slope = Slope(0.1)
    seen_w = [slope.watts_at(time_s / 10, min(time_s, 20)) for time_s in range(60)]
    assert seen_w[1:21] == pytest.approx([10.0] * 20)
    assert seen_w[-1] == 0.0
    assert math.isnan(slope.watts_at(6.0, math.nan))
    assert math.isnan(slope.watts_at(6.1, 3.0))
    assert math.isnan(slope.watts_at(6.6, 4.0))  # how old the value before was is not known
    assert slope.watts_at(7.6, 24.0) == pytest.approx(20.0)


@pytest.mark.parametrize("interval_s", [0.0, -1.0, 1e-6, math.inf, math.nan])
def test_an_interval_that_is_none_is_refused(clock, interval_s):
    with pytest.raises(JpwrError, match=r"must be 0.001 s or more, got"):
        sample(clock, lambda: 1.0, interval_s=interval_s)


def steps(times_s):
    return [later - earlier for earlier, later in zip(times_s, times_s[1:])]


def deadlines(interval_s, until_s):
    """When a monitor reads that takes no moment by chance, from 0 on."""
    ticks = (tick * interval_s for tick in itertools.count())
    return list(itertools.takewhile(lambda time_s: time_s <= until_s + 1e-9, ticks))


def even() -> float:
    return 0.0


class Panic(BaseException):
    """As PyO3's PanicException is, it is no Exception."""


def panicking() -> float:
    raise Panic("of a library in Rust")


def broken() -> float:
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize(
    "reads",
    [
        broken,
        lambda: None,
        lambda: 10**400,
        lambda: -0.5,
        lambda: math.inf,
        lambda: 2e9,
        lambda: math.nan,
        lambda: sys.exit(3),
        panicking,
    ],
)
def test_a_reader_with_a_bug_is_reported_at_once_and_costs_no_other_sensor_its_readings(stepped, reads):
    # The bug shows after a second.
    channels = [
        Channel(INFO._replace(name="bad"), lambda: reads() if stepped.time_s > 1.05 else 5.0),
        Channel(INFO._replace(name="good"), lambda: 7.0),
    ]
    told: list[str] = []
    with PowerMonitor(channels, clock=stepped, warn=told.append, chance=even) as monitor:
        stepped.move_to(3.0)
        monitor.flush()
        assert [words.partition(":")[0] for words in told] == ["bad"]
    bad, good = monitor.trace.series()
    assert list(good.power_w) == [7.0] * len(deadlines(0.1, 3.0)) + [7.0]
    assert [math.isnan(power_w) for power_w in bad.power_w] == [time_s > 1.05 for time_s in bad.times_s]
    assert monitor.recorder.failed_reads == {"bad": sum(map(math.isnan, bad.power_w)), "good": 0}


def test_a_region_in_a_signals_handler_waits_for_nobody_who_handles_it():
    marked, seen_s = [], []

    class Sink:
        def extend(self, rows):
            if not marked:  # a handler comes just then
                monitor.sample()
                monitor.mark("region_begin", "first")
            seen_s.extend(row.time_s for row in rows)

        def event(self, name, time_s, /, **details):
            marked.append(details["region"])
            if details["region"] == "outer":
                monitor.mark("region_begin", "inner")

    monitor = PowerMonitor([Channel(INFO, lambda: 5.0)], sinks=[Sink()])

    def mark():
        monitor.sample()
        monitor.mark("region_begin", "outer")
        monitor.flush()

    thread = threading.Thread(target=mark, daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert marked == ["first", "outer", "inner"]
    assert len(seen_s) > 1
    assert seen_s == sorted(seen_s)


def test_an_error_of_who_takes_the_rows_reaches_the_one_who_waits():
    class Full:
        def extend(self, rows):
            raise ZeroDivisionError("a bug")

        def event(self, name, time_s, /, **details):
            pass

    with pytest.raises(ZeroDivisionError), PowerMonitor([Channel(INFO, lambda: 1.0)], sinks=[Full()]):
        pass


def test_a_counter_that_fails_later_than_power_is_reported_too(clock):
    def failing_from(begin_s, end_s, name):
        def read():
            if begin_s < clock.time_s < end_s:
                raise ReadError(f"no {name}")
            return 5 * clock.time_s

        return read

    info = INFO._replace(has_counter=True)
    channel = Channel(info, failing_from(0.25, 0.35, "watts"), failing_from(1.05, 9.0, "joules"))
    told: list[str] = []
    Sampler([channel], [Trace([info])], 0.1, clock, told.append, chance=even).run(lambda: clock.time_s >= 3.0)
    assert [words.split(";")[0] for words in told] == ["sensor: no watts", "sensor: counter: no joules"]


def test_a_device_that_answers_while_it_is_left_behind_changes_no_other_reading():
    taken, told = [], []
    released, went_on = threading.Event(), threading.Event()

    def number() -> float:
        taken.append(float(len(taken)))
        return taken[-1]

    def stuck_w() -> float:
        if told:
            return 2.0
        released.wait(DEADLINE_S)
        return 2.0

    def warn(words: str) -> None:
        told.append(words)
        released.set()
        seen = len(taken)
        if len(told) == 1:
            wait_until(lambda: len(taken) > seen + 5, "more readings")
            went_on.set()

    beside = Channel(INFO, number)
    stuck = Channel(INFO._replace(name="stuck"), stuck_w)
    with PowerMonitor([beside, stuck], interval_s=0.01, warn=warn) as monitor:
        wait_until(lambda: len(told) > 1 and went_on.is_set(), "an answer")
    assert [words.split(";")[0] for words in told] == ["stuck: does not answer", "stuck: answers again"]
    numbers = monitor.trace.series()[0].power_w
    assert len(set(numbers)) == len(numbers)


def test_where_several_devices_hang_the_others_go_on_by_themselves(stepped):
    def stuck_w() -> float:
        stepped.sleep_until(60.0 if stepped.time_s >= 1.0 else 0.0)
        return 2.0

    names = ["a", *(f"hangs {number}" for number in range(8)), "z"]
    channels = [Channel(INFO._replace(name=name), stuck_w if "hangs" in name else lambda: 1.0) for name in names]
    told: list[str] = []
    with PowerMonitor(channels, interval_s=0.1, clock=stepped, warn=told.append, chance=even) as monitor:
        stepped.move_to(30.0)
        assert sorted(monitor.hung) == names[1:-1]
        stepped.move_to(61.0)
    seen_s = [time_s for time_s in monitor.trace.series()[-1].times_s if time_s < 60.0]
    assert max(steps(seen_s)) < 3 * (HUNG_S + WATCH_INTERVAL_S + 0.2)  # the first, the second, and all others together
    assert len(seen_s) > 250


def test_a_process_that_was_forked_waits_for_no_thread_that_it_has_not():
    with PowerMonitor([Channel(INFO, lambda: 5.0)]) as monitor:
        with monitor.recorder.lock:  # as when a thread is handing on at that moment
            process = os.fork()
            if process == 0:
                monitor.__exit__(None, None, None)
                os._exit(7 if monitor.trace else 1)
        try:
            wait_until(lambda: b") Z " in Path(f"/proc/{process}/stat").read_bytes(), "its end")
        finally:
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
        assert os.waitstatus_to_exitcode(status) == 7


def test_a_block_begins_when_all_channels_have_been_read(monkeypatch):
    """Else what the program does first is not covered, where the sampler's thread has to wait for a core."""
    monkeypatch.setattr("jpwr.sampling.monitor.MARK_S", DEADLINE_S)  # who answers may have to wait for one, too
    reading, answers = threading.Event(), threading.Event()

    def slow_w() -> float:
        reading.set()
        assert answers.wait(DEADLINE_S)
        return 5.0

    def answer() -> None:
        assert reading.wait(DEADLINE_S)
        time.sleep(0.1)  # for long enough that a block that does not wait would be in it
        answers.set()

    threading.Thread(target=answer).start()
    slower = Channel(INFO._replace(name="slower", period_s=60.0), slow_w)
    with PowerMonitor([Channel(INFO, lambda: 5.0), slower], interval_s=30.0) as monitor:
        assert answers.is_set()
        first_s = [series.times_s[0] for series in monitor.trace.series()]
        assert max(first_s) < monitor.clock.now_s()


def test_a_counter_that_does_not_answer_at_a_mark_holds_up_no_program(monkeypatch):
    monkeypatch.setattr("jpwr.sampling.monitor.MARK_S", 0.01)
    marks, answers = threading.Event(), threading.Event()

    def stuck_j() -> float:
        if marks.is_set() and threading.current_thread().name != "jpwr":
            assert answers.wait(DEADLINE_S)
        return 1.0

    channel = Channel(INFO._replace(has_counter=True), lambda: 5.0, stuck_j)
    with PowerMonitor([channel], interval_s=60.0) as monitor:
        wait_until(lambda: monitor.trace.series()[0].samples, "a first reading")
        marks.set()
        with jpwr.region("work"):
            assert not answers.is_set()
        answers.set()
    assert [region.name for region in monitor.trace.regions()] == ["work"]


def test_a_sensor_with_a_slow_pace_of_its_own_delays_no_fast_one(stepped):
    def slow_w() -> float:
        stepped.sleep_until(stepped.time_s + 0.3)
        return 7.0

    slow = Channel(INFO._replace(name="slow", period_s=0.3), slow_w)
    with PowerMonitor([slow, Channel(INFO, lambda: 1.0)], interval_s=0.02, clock=stepped, chance=even) as monitor:
        stepped.move_to(2.0)
    slow_series, fast_series = monitor.trace.series()
    assert list(fast_series.times_s) == pytest.approx([*deadlines(0.02, 2.0), 2.0])
    starts_s = list(slow_series.times_s)
    assert len(starts_s) >= 4
    assert min(steps(starts_s[:-2])) >= 0.3 - 1e-9  # the end cuts a call short


def slow_counter(clock, told_s, takes_s=0.0):
    def read_j() -> float:
        clock.sleep_until(clock.time_s + (takes_s or told_s))
        return 2 * clock.time_s

    return Channel(INFO._replace(has_counter=True), lambda: 2.0, read_j, counter_takes_s=told_s)


@pytest.mark.parametrize("takes_s", [0.003, 0.03])
def test_a_slow_counter_delays_no_power_and_is_read_less_often_where_it_takes_longer(stepped, takes_s):
    channel = slow_counter(stepped, 0.003, takes_s)
    with PowerMonitor([channel], interval_s=0.02, clock=stepped, chance=even) as monitor:
        stepped.move_to(4.0)
    [series] = monitor.trace.series()
    assert list(series.times_s) == pytest.approx([*deadlines(0.02, 4.0), 4.0])
    steps_s = steps(series.counter_times_s)[:-2]
    assert len(steps_s) > len(PROBES) and min(steps_s) >= takes_s / COUNTER_SHARE - 1e-9
    assert monitor.recorder.skipped_ticks == 0


def test_a_quick_counter_stays_next_to_its_power_and_a_slow_one_where_there_is_time(stepped):
    channels = [slow_counter(stepped, 0.005), Channel(INFO._replace(name="quick", has_counter=True), lambda: 1.0, even)]
    with PowerMonitor(channels, interval_s=0.1, clock=stepped, chance=even) as monitor:
        stepped.move_to(6.0)
    for series in monitor.trace.series():
        counted, seen = ([t for t in times_s if 4.0 < t < 5.0] for times_s in (series.counter_times_s, series.times_s))
        assert len(counted) == len(seen) > 5


@pytest.mark.parametrize(("answers_s", "end_s"), [(20.0, 40.0), (1e6, 20.0), (1e6, 3.9)])
def test_a_status_that_does_not_answer_is_reported_and_all_are_unknown_until_it_does(
    stepped, monkeypatch, answers_s, end_s
):
    monkeypatch.setattr("jpwr.sampling.monitor.JOIN_S", 0.01)
    ended = threading.Event()

    def stuck() -> dict[str, float]:
        stepped.sleep_until(answers_s if stepped.time_s >= 3.0 else 0.0)
        if 3.0 <= stepped.time_s < answers_s:  # the end of the run wakes it
            ended.wait(DEADLINE_S)
        return {"clock_mhz": 1980.0}

    names = ("a", "stuck")
    channels = [Channel(INFO._replace(name=name), lambda: 7.0, read_status=stuck) for name in names]
    channels[0] = channels[0]._replace(read_status=lambda: {"clock_mhz": 1410.0})
    words: list[str] = []
    with PowerMonitor(channels, clock=stepped, warn=words.append, chance=even) as monitor:
        stepped.move_to(end_s)
    events = [
        (event.name, event.time_s, event.details.get("clock_mhz"), event.details["channel"])
        for event in monitor.trace.events
    ]
    ended.set()
    assert [word.partition(":")[0] for word in words] == ["stuck"]
    unknown = [(NO_STATUS, 3.0, None, "stuck"), (STATUS, 3.0, None, "a"), (STATUS, 3.0, None, "stuck")]
    again = [(STATUS, 20.0, 1980.0, "stuck"), (STATUS, 20.0, 1410.0, "a")]
    assert events[:2] == [(STATUS, 0.0, 1410.0, "a"), (STATUS, 0.0, 1980.0, "stuck")]
    assert events[2:] == unknown + again * (answers_s < end_s)
    assert [series.missing for series in monitor.trace.series()] == [0, 0]
    assert len([note for note in Summary(monitor.trace).notes() if note.startswith("stuck: its status")]) == 1


def test_a_device_that_does_not_answer_is_left_behind_until_it_does(stepped):
    def stuck_w() -> float:
        stepped.sleep_until(3.0 if stepped.time_s >= 1.0 else 0.0)
        return 2.0

    channels = [Channel(INFO._replace(name=name), read) for name, read in (("a", lambda: 1.0), ("b", stuck_w))]
    channels.append(Channel(INFO._replace(name="c"), lambda: 3.0))
    words: list[str] = []
    with PowerMonitor(channels, interval_s=0.02, clock=stepped, warn=words.append, chance=even) as monitor:
        stepped.move_to(2.5)
        assert monitor.hung == ["b"]
        assert monitor.recorder.failed_reads == {"a": 0, "b": 1, "c": 0}
        stepped.move_to(4.0)
        assert monitor.hung == []
    a, b, c = ([time_s for time_s in series.times_s if time_s < 4.0] for series in monitor.trace.series())
    assert [time_s for time_s in a if time_s not in c] == pytest.approx([1.0])  # read before b hung
    assert not set(c) - set(a)
    # For HUNG_S and a look of the one who watches nobody is read, then a and c go on.
    gaps_s = sorted(steps(a))
    assert HUNG_S < gaps_s[-1] <= HUNG_S + WATCH_INTERVAL_S + 0.04
    assert gaps_s[-2] < 0.04
    assert monitor.recorder.skipped_ticks >= int((gaps_s[-1] - 0.04) / 0.02)
    of_b = monitor.trace.series()[1]
    silent = [watts for time_s, watts in zip(of_b.times_s, of_b.power_w) if 1.01 < time_s < 2.99]
    assert len(silent) == pytest.approx(99, abs=1)
    assert all(map(math.isnan, silent))
    assert [time_s for time_s in b if time_s >= 3.0]
    assert [word.split(";")[0] for word in words] == ["b: does not answer", "b: answers again"]


def test_next_to_a_sensor_that_hangs_nothing_is_lost_at_the_end():
    answers, read = threading.Event(), {"b": 0, "slow": 0}

    def stuck_w() -> float:
        answers.wait(DEADLINE_S)
        return 1.0

    def count(name: str) -> float:
        read[name] += 1
        return 2.0

    infos = [INFO._replace(name="a"), INFO._replace(name="b"), INFO._replace(name="slow", period_s=0.05)]
    reads = [stuck_w, lambda: count("b"), lambda: count("slow")]
    trace = Trace(infos)
    channels = [Channel(info, read_w) for info, read_w in zip(infos, reads)]
    with PowerMonitor(channels, 0.02, sinks=[trace], warn=lambda _: None) as monitor:
        wait_until(lambda: monitor.hung and read["b"] and read["slow"], "the word that a hangs")
    assert [series.samples for series in trace.series()] == [0, read["b"], read["slow"]]
    answers.set()


def test_a_sensor_that_hangs_at_the_very_end_is_left_behind_too():
    answers, ending = threading.Event(), threading.Event()

    def stuck_w() -> float:
        if ending.is_set():
            answers.wait(DEADLINE_S)
        return 1.0

    words: list[str] = []
    with PowerMonitor([Channel(INFO, stuck_w)], interval_s=0.02, warn=words.append) as monitor:
        ending.set()
    assert monitor.hung == ["sensor"]
    assert words == ["sensor: does not answer; sampling continues without it"]
    answers.set()


def test_a_regions_energy_is_that_between_its_very_edges_whatever_the_interval(stepped):
    power_w, energy_j = square(4.0)
    info = INFO._replace(has_counter=True, counter_refresh_s=1e-6, limit_w=700.0)
    channel = Channel(info, lambda: power_w(stepped.time_s), lambda: energy_j(stepped.time_s))
    # Between 0 and 5 s no sample is taken but for the marks, and power changes at 2 s and at 4 s.
    with PowerMonitor([channel], interval_s=5.0, clock=stepped, chance=even) as monitor:
        stepped.move_to(1.2)
        with jpwr.region("work"):
            stepped.move_to(4.3)
        stepped.move_to(12.0)
    [work] = monitor.trace.regions()
    assert (work.name, work.start_s, work.end_s) == ("work", 1.2, 4.3)
    [energy] = monitor.trace.energies(work.start_s, work.end_s)
    assert energy.counter_j == pytest.approx(energy_j(4.3) - energy_j(1.2), rel=1e-5)


def test_a_sleep_ends_at_its_deadline_or_when_it_is_woken():
    clock = Clock()
    deadline_s = clock.now_s() + 0.01
    clock.sleep_until(deadline_s)
    assert clock.now_s() >= deadline_s
    sleeper = threading.Thread(target=clock.sleep_until, args=(clock.now_s() + 1e6,), daemon=True)
    sleeper.start()
    clock.wake()
    sleeper.join(DEADLINE_S)
    assert not sleeper.is_alive()


@pytest.mark.parametrize(
    ("scope", "limit_w", "power_w", "is_power"),
    [
        (Scope.NODE, 0.0, 65535.0, False),
        (Scope.NODE, 0.0, 65535, False),
        (Scope.DEVICE, 0.0, 4294967.295, False),
        (Scope.NODE, 0.0, 0.0, False),
        (Scope.SUPPLY, 0.0, 0, False),
        (Scope.DEVICE, 0.0, 0.0, True),  # a device may sleep
        (Scope.NODE, 0.0, 65534.0, True),
        (Scope.DEVICE, 700.0, 30000.0, False),
        (Scope.DEVICE, 700.0, 1500.0, True),
        (Scope.DEVICE, 0.0, 30000.0, True),
    ],
)
def test_marks_for_no_power_and_glitches_are_missing_and_counted(stepped, scope, limit_w, power_w, is_power):
    info = INFO._replace(scope=scope, limit_w=limit_w)
    channel = Channel(info, lambda: power_w if 1.0 < stepped.time_s < 2.0 else 300.0)
    told: list[str] = []
    with PowerMonitor([channel], clock=stepped, warn=told.append, chance=even) as monitor:
        stepped.move_to(3.0)
    [series] = monitor.trace.series()
    assert (series.missing > 0) == (not is_power)
    assert monitor.recorder.failed_reads == {info.name: series.missing}
    assert len(told) == (not is_power)
    assert series.samples + series.missing == len(series.power_w)


def test_one_reading_a_second_keeps_the_rule_of_one_a_second(stepped):
    chances = itertools.cycle([0.1, 0.9, 0.5, 0.7, 0.2])
    channel = Channel(INFO._replace(scope=Scope.NODE, period_s=1.0), lambda: 300.0)
    with PowerMonitor([channel], clock=stepped, warn=print, chance=lambda: next(chances)) as monitor:
        stepped.move_to(130.0)
    for start_s, end_s in ((3.3, 123.1), (2.95, 124.05), (4.0, 104.0)):
        [energy] = monitor.trace.energies(start_s, end_s)
        assert energy.samples / energy.duration_s >= 0.9  # quality.MIN_RATE_HZ of the results
