"""Clocks and limits of devices in the windows of a run, and the reasons for throttling, as the sampler read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jpwr.channel import ChannelInfo
from jpwr.trace.trace import Event, Trace
from record.model import Clocks, Limits, Window
from record.part import changed, is_number
from record.values import grouped

# NVML's nvmlClocksEventReasons, without idleness and clocks that a user set.
REASONS = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
Held = list[tuple[float, float]]  # seconds for which a value held, and the value


def clocks_of(trace: Trace, channel: str, windows: Sequence[Window]) -> Clocks | None:
    """Return clock, temperature and the share of time with each throttle reason of a channel, over its node's windows.

    A reading is valid until the next one that differs. Returns None if the sampler has no reading before the windows'
    end, and omits `throttled` if a reading lacks the reasons.
    """
    held = _held(trace, channel, windows)
    if not held:
        return None
    clocks, temperatures = (_of(held, key) for key in ("sm_clock_mhz", "temperature_c"))
    found = Clocks(
        mean_mhz=_mean(clocks) if clocks else None,
        least_mhz=min((clock for _, clock in clocks), default=None),
        hottest_c=max((degrees for _, degrees in temperatures), default=None),
    )
    known_s, percent = math.fsum(seconds for seconds, _ in held), dict[str, float]()
    for seconds, status in held:
        try:
            bits = int(str(status.get("throttle_reasons")), 16)
        except ValueError:
            return found
        for name in (words for bit, words in REASONS.items() if bits & bit):
            percent[name] = percent.get(name, 0.0) + 100 * seconds / known_s
    return changed(found, throttled=percent)


def limits_of(trace: Trace, info: ChannelInfo, windows: Sequence[Window]) -> Limits:
    """Return the limits of a channel's device in watts and MHz; the power limit is that of the longest time.

    What was set counts where the power limit was not read in the windows. A locked clock cannot be observed: it is None
    unless the sampler set or checked it.
    """
    settings = [one for one in trace.meta.get("limits", []) if one["channel"] == info.name]
    set_w, set_mhz = (
        min((one["set"] for one in settings if one["kind"] == kind), default=None) for kind in ("power limit", "clock")
    )
    held = _of(_held(trace, info.name, windows), "power_limit_w")
    by_limit = grouped(held, lambda part: part[1])
    longest_w = max(by_limit, key=lambda limit_w: math.fsum(seconds for seconds, _ in by_limit[limit_w]), default=None)
    limits = Limits(
        power_limit_w=longest_w or set_w or info.limit_w or None,
        clock_limit_mhz=set_mhz,
        limits_set_by=" and ".join(sorted({one["by"][:60] for one in settings})),
    )
    if not held:
        return limits
    all_w = [*by_limit, *([set_w] if set_w else [])]
    over_time = {"mean": _mean(held), "least": min(all_w), "most": max(all_w)}
    return changed(limits, **{f"power_limit_{name}_w": value for name, value in over_time.items()})


def _held(trace: Trace, channel: str, windows: Sequence[Window]) -> list[tuple[float, dict[str, Any]]]:
    """Return each status of a channel in the windows with the seconds for which it held, in the order of time."""
    events = [event for event in trace.events if event.name == "status" and event.details.get("channel") == channel]
    return [
        (seconds, event.details)
        for window in windows
        for event, after in pairwise([*events, Event("", math.inf, {})])
        if (seconds := min(after.time_s, window.end_s) - max(event.time_s, window.start_s)) > 0
    ]


def _of(held: Sequence[tuple[float, dict[str, Any]]], key: str) -> Held:
    return [(seconds, value) for seconds, status in held if is_number(value := status.get(key))]


def _mean(parts: Held) -> float:
    """Return the mean of values, each weighted by the seconds for which it held."""
    return math.fsum(seconds * value for seconds, value in parts) / math.fsum(seconds for seconds, _ in parts)
