from __future__ import annotations

import math
import time

import pytest

from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import JpwrError, ReadError
from jpwr.sampler import PowerMonitor, Sampler
from jpwr.trace import Trace

INFO = ChannelInfo("sensor", Scope.DEVICE, "a test")


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


def test_samples_are_at_multiples_of_the_interval_and_at_the_end(clock):
    trace, sampler, _ = sample(clock, lambda: 1.0)
    assert list(times_of(trace)) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert sampler.skipped_ticks == 0


def test_a_slow_read_skips_ticks_and_never_bursts(clock):
    def slow() -> float:
        clock.time_s += 0.25
        return 1.0

    trace, sampler, _ = sample(clock, slow, until_s=0.7)
    assert list(times_of(trace)) == pytest.approx([0.0, 0.3, 0.6, 0.9])
    assert sampler.skipped_ticks == 6


def test_what_a_read_takes_does_not_move_later_deadlines(clock):
    def quick() -> float:
        clock.time_s += 0.03
        return 1.0

    trace, _, _ = sample(clock, quick, until_s=10.0)
    assert times_of(trace)[100] == pytest.approx(10.0)


def test_a_failed_read_is_missing_counted_and_warned_about_once(clock):
    def read() -> float:
        if 0.15 < clock.time_s < 0.45:
            raise ReadError("the bus is busy")
        return 7.0

    trace, sampler, warnings = sample(clock, read)
    [series] = trace.series()
    assert [math.isnan(power_w) for power_w in series.power_w] == [False, False, True, True, True, False, False]
    assert sampler.failed_reads == {"sensor": 3}
    assert warnings == ["sensor: the bus is busy; readings that fail are recorded as missing"]


def test_without_a_power_reading_power_is_the_counters_slope(clock):
    trace, _, _ = sample(clock, None, read_energy_j=lambda: 50.0 * clock.time_s)
    [series] = trace.series()
    assert math.isnan(series.power_w[0])
    assert list(series.power_w[1:]) == pytest.approx([50.0] * 6)


@pytest.mark.parametrize("interval_s", [0.0, -1.0, math.inf, math.nan])
def test_an_interval_that_is_none_is_refused(clock, interval_s):
    with pytest.raises(JpwrError, match="must be above 0 s"):
        sample(clock, lambda: 1.0, interval_s=interval_s)


def test_a_monitor_samples_while_its_block_lasts():
    with PowerMonitor([Channel(INFO, lambda: 3.0)], interval_s=0.02) as monitor:
        time.sleep(0.2)
    [series] = monitor.trace.series()
    assert 5 <= series.samples <= 12
    assert set(series.power_w) == {3.0}


def test_an_error_that_nobody_expected_reaches_the_one_who_waits():
    def broken() -> float:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError), PowerMonitor([Channel(INFO, broken)]):
        time.sleep(0.05)
