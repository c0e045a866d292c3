from __future__ import annotations

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Trace
from record.derivation import limits_of_all
from record.model import Channel, Window
from record.part import as_json
from results.join.clocks import clocks_of, limits_of
from results.tests import builder
from results.tests.of_dicts import by_point, contradictions, energy_of
from results.verdicts.quality import deviations


def trace(*looks):
    made = Trace([ChannelInfo("pynvml:0", Scope.DEVICE, "made up")])
    for time_s, mhz, reasons in looks:
        made.event(
            "status", time_s, channel="pynvml:0", sm_clock_mhz=mhz, temperature_c=60 + time_s, throttle_reasons=reasons
        )
    return made


def window(start_s, end_s):
    return Window(hostname="n1", boot_id="boot", start_s=start_s, end_s=end_s, kind="measured")


WINDOW = window(10.0, 20.0)


def test_clocks_and_reasons_are_weighed_by_the_time_that_they_held():
    looks = [(5.0, 1000, "0x1"), (12.0, 1800, "0x0"), (15.0, 1200, "0x24"), (25.0, 300, "0x80")]
    found = clocks_of(trace(*looks), "pynvml:0", [WINDOW])
    assert found.mean_mhz == pytest.approx((2 * 1000 + 3 * 1800 + 5 * 1200) / 10)
    assert (found.least_mhz, found.hottest_c) == (1000, 75.0)
    assert found.throttled == pytest.approx({"power limit": 50.0, "software thermal slowdown": 50.0})


def test_reasons_are_unknown_if_a_status_did_not_answer_in_the_window():
    made = trace((5.0, 1000, "0x0"), (25.0, 1000, "0x0"))
    made.event("status", 15.0, channel="pynvml:0")
    assert clocks_of(made, "pynvml:0", [WINDOW]).throttled is None
    assert clocks_of(made, "pynvml:0", [window(5.0, 15.0)]).throttled == {}


def test_several_windows_are_one_time():
    windows = [window(0.0, 1.0), window(9.0, 12.0)]
    found = clocks_of(trace((0.0, 1000, "0x0"), (10.0, 2000, "0x40")), "pynvml:0", windows)
    assert found.mean_mhz == pytest.approx((2 * 1000 + 2 * 2000) / 4)
    assert found.throttled == pytest.approx({"hardware thermal slowdown": 50.0})


def stated(**changes):
    return {"channel": "pynvml:0", "kind": "power limit", "unit": "W", "set": 490.0, "by": "jpwr, user 0", **changes}


@pytest.mark.parametrize(
    ("described", "seen", "limits"),
    [
        # limits that were set, those seen with their times, and what is stored: mean, least and most last
        (
            [stated(), stated(kind="clock", unit="MHz", set=1380.0)],
            [(0, 490.0)],
            (490, 1380, "jpwr, user 0", 490, 490, 490),
        ),
        ([stated(channel="pynvml:1")], [(0, 700.0)], (700, None, "", 700, 700, 700)),
        (None, [], (650, None, "")),
        ([stated(by="scheduler")], [(30, 300.0)], (490, None, "scheduler")),
        # lowered for the last 3 s, and put back by another tool for 80 % of the window, or before it began
        (None, [(0, 700.0), (17, 400.0)], (700, None, "", 610, 400, 700)),
        ([stated()], [(0, 490.0), (12, 700.0)], (700, None, "jpwr, user 0", 658, 490, 700)),
        (None, [(0, 700.0), (12, 300.0), (13, 700.0)], (700, None, "", 660, 300, 700)),
    ],
)
def test_limits_are_those_in_force_over_the_time_or_else_those_that_were_set(described, seen, limits):
    info = ChannelInfo("pynvml:0", Scope.DEVICE, "made up", limit_w=650.0)
    made = Trace([info], {} if described is None else {"limits": described})
    for time_s, limit_w in seen:
        made.event("status", time_s, channel="pynvml:0", power_limit_w=limit_w)
    found = limits_of(made, info, [WINDOW])
    assert tuple(as_json(found).values()) == limits
    assert found.varied == (len(limits) > 3 and limits[-1] != limits[-2])


def test_a_limit_that_was_lowered_for_the_last_seconds_does_not_discard_the_run():
    record = builder.result(power_w=690.0)
    record["devices"][0]["device_id"] = ""
    [window] = record["windows"]
    made = Trace([ChannelInfo("pynvml:0", Scope.DEVICE, "made up")], {"boot_id": window["boot_id"]})
    for time_s, limit_w in ((0.0, 700.0), (window["end_s"] - 3, 400.0)):
        made.event("status", time_s, channel="pynvml:0", power_limit_w=limit_w)
    for second in range(80):
        made.append(float(second), [690.0 if second < window["end_s"] - 3 else 400.0], [None])
    energy = energy_of(record, [made], "measured")
    [channel] = energy.channels
    assert (energy.power_limit_w, channel.limits.power_limit_w) == (None, 700.0)
    assert channel.limits.power_limit_mean_w == pytest.approx(685.0)
    record["energy"]["channels"][0] |= {"limits": as_json(channel.limits), "clocks": as_json(channel.clocks)}
    assert contradictions(record) == []


def test_limits_of_all_devices_are_known_where_they_share_them():
    def channel(watts, percent):
        clocks = {"throttled": {"power limit": percent, "sync boost": 90.0}}
        return Channel.of({"limits": {"power_limit_w": watts, "clock_limit_mhz": None}, "clocks": clocks})

    found = limits_of_all([channel(490.0, 20.0), channel(490.0, 60.0)])
    assert tuple(found.values()) == (490.0, None, 60.0)
    assert limits_of_all([channel(490.0, 0.0), channel(700.0, 0.0)])["power_limit_w"] is None


@pytest.mark.parametrize("looks", [(), ((30.0, 1000, "0x4"),)])
def test_what_was_not_looked_at_is_not_known(looks):
    assert clocks_of(trace(*looks), "pynvml:0", [WINDOW]) is None
    assert clocks_of(trace((0.0, 1000, "0x4")), "pynvml:1", [WINDOW]) is None


def test_a_look_that_failed_in_part_tells_the_rest():
    made = Trace([ChannelInfo("pynvml:0", Scope.DEVICE, "made up")])
    made.event("status", 0.0, channel="pynvml:0", throttle_reasons="what")
    found = clocks_of(made, "pynvml:0", [WINDOW])
    assert (found.mean_mhz, found.throttled) == (None, None)


def test_what_held_an_accelerators_clocks_is_told_or_said_to_be_unknown():
    for clocks, is_known in (({}, False), ({"mean_mhz": 1e3}, False), ({"throttled": {}}, True)):
        record = builder.altered(builder.result(), {"energy.channels.0.clocks": clocks})
        on_gpu = {**record, "config": {"compute": {"device": "gpu", "precision": "bf16"}}}
        found = [{one.kind for one in deviations(by_point([run])[0])} for run in (on_gpu, record)]
        assert ["throttling_unknown" in kinds for kinds in found] == [not is_known, False]


@pytest.mark.parametrize(("percent", "values"), [(40.0, [{"percent": 40.0}]), (0.5, []), (None, [])])
def test_a_run_that_its_cpu_quota_held_back_says_so(percent, values):
    record = builder.altered(builder.result(), {"metrics.cpu_throttled_percent": percent})
    assert [dict(one.values) for one in deviations(by_point([record])[0]) if one.kind == "quota"] == values
