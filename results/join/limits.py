"""Limits of devices during a run: as the sampler set or found them, and how long they bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jpwr.channel import ChannelInfo
from jpwr.trace.trace import Trace
from record.model import Channel, Limits, Window, changed, is_number
from record.values import grouped
from results.join.clocks import mean, status_of

KEYS = {"power limit": "power_limit_w", "clock": "clock_limit_mhz"}  # of the kinds in a trace
POWER_BOUND = "power limit"  # among the reasons for throttling


def limits_of(trace: Trace, info: ChannelInfo, windows: Sequence[Window]) -> Limits:
    """Return the limits of a channel's device in watts and MHz; the power limit is that of the longest time.

    What was set counts where the power limit was not read in the windows. A locked clock cannot be observed: it is None
    unless the sampler set or checked it.
    """
    described = trace.meta.get("limits")
    every = described if isinstance(described, list) else []
    mine = [one for one in every if isinstance(one, dict) and one.get("channel") == info.name]
    found: dict[str, float | None] = {}
    for kind, key in KEYS.items():
        values = [one.get("set") for one in mine if one.get("kind") == kind]
        found[key] = min((value for value in values if isinstance(value, int | float) and value > 0), default=None)
    statuses = status_of(trace, info.name, windows)
    held = [(seconds, limit_w) for seconds, one in statuses if is_number(limit_w := one.get("power_limit_w"))]
    by_limit = grouped(held, lambda part: part[1])
    longest_w = max(by_limit, key=lambda limit_w: math.fsum(seconds for seconds, _ in by_limit[limit_w]), default=None)
    set_w = found["power_limit_w"]
    limits = Limits(
        power_limit_w=longest_w or set_w or info.limit_w or None,
        clock_limit_mhz=found["clock_limit_mhz"],
        limits_set_by=" and ".join(sorted({str(one.get("by", ""))[:60] for one in mine})),
    )
    if not held:
        return limits
    every = [*by_limit, *filter(None, [set_w])]
    over_time = {"mean": mean(held), "least": min(every), "most": max(every)}
    return changed(limits, **{f"power_limit_{name}_w": value for name, value in over_time.items()})


def limits_of_all(channels: Sequence[Channel]) -> dict[str, Any]:
    """Return the limits that all channels share, None if they differ or varied, and how the devices kept to them.

    The shares, in percent, are those of the device that is affected most.
    """
    clocks = [one.clocks for one in channels]
    reasons = [one.throttled for one in clocks if one.throttled is not None]
    shared = {key: {one.limits.number(key) for one in channels} for key in KEYS.values()}
    shared["power_limit_w"] |= {None for one in channels if one.limits.varied}
    drifts = {
        name: [value for one in clocks if (value := one.number(key)) is not None]
        for name, key in (("clock_drift_percent", "drift_percent"), ("temperature_drift_c", "drift_c"))
    }
    return {
        **{key: values.pop() if len(values) == 1 else None for key, values in shared.items()},
        "power_limited_percent": max((one.get(POWER_BOUND, 0.0) for one in reasons), default=None),
        **{name: max(values, key=abs, default=None) for name, values in drifts.items()},
    }
