"""Limits of devices during a run: as the sampler set or found them, and how long they bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jpwr.channel import ChannelInfo
from jpwr.trace.trace import Trace
from record.model import Limits, Window, changed, is_number
from record.values import grouped
from results.join.clocks import mean, status_of

KEYS = {"power limit": "power_limit_w", "clock": "clock_limit_mhz"}  # of the kinds in a trace


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
