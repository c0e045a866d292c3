"""Readings of power that are no measurement: sentinel values for "no value", and glitches."""

from __future__ import annotations

from jpwr.channel import MOST_W, ChannelInfo, Scope

# The largest numbers of 16, 31 and 32 bits, in watts and in milliwatts: firmware reports them for an unknown power.
NO_POWER_W = frozenset((32767.0, 65535.0, 2147483.647, 4294967.295))
# A board may take more than its limit for milliseconds, and a laptop's processor three times as much for seconds.
TIMES_LIMIT = 5.0
LEAST_W = 0.001  # of a node: one that runs this program uses more than 0 W


def bounds_w(info: ChannelInfo) -> tuple[float, float]:
    """Return the lowest and the highest plausible power of a channel, in watts."""
    least_w = LEAST_W if info.scope in (Scope.NODE, Scope.SUPPLY) else 0.0
    return least_w, min(MOST_W, TIMES_LIMIT * info.limit_w or MOST_W)
